import asyncio

import pytest

from ottla.server.answers.deferred import Deferred, Outcome


def test_it_is_settled_once_at_once_or_soon() -> None:
    heard: list[tuple[Outcome, bool]] = []
    for settle, at_once in ((Deferred.settle, True), (Deferred.settle_soon, False)):
        deferred = Deferred(lambda: None)
        deferred.then(lambda outcome, now: heard.append((outcome, now)))
        settle(deferred, [b"parts"])
        settle(deferred, [b"again"])
        assert heard == [([b"parts"], at_once)]
        heard.clear()


def test_what_is_known_before_anybody_waits_is_not_lost() -> None:
    heard: list[tuple[Outcome, bool]] = []
    deferred = Deferred(lambda: None)
    deferred.settle([b"early"])
    deferred.then(lambda outcome, now: heard.append((outcome, now)))
    assert heard == [([b"early"], False)]


def test_who_settles_what_nobody_waits_for_does_no_harm() -> None:
    heard: list[Outcome] = []
    told: list[str] = []
    deferred = Deferred(lambda: told.append("gone"))
    deferred.then(lambda outcome, _: heard.append(outcome))
    deferred.abandon()
    deferred.settle([b"late"])
    assert (told, heard) == (["gone"], [])


def test_it_can_be_awaited() -> None:
    async def scenario() -> None:
        told: list[str] = []
        outcomes: list[Outcome] = [[b"parts"], ValueError("no")]
        for outcome in outcomes:
            deferred = Deferred(lambda: told.append("gone"))
            waiting = asyncio.ensure_future(deferred)
            await asyncio.sleep(0)
            deferred.settle(outcome)
            if isinstance(outcome, list):
                assert await waiting == outcome
            else:
                with pytest.raises(ValueError, match="no"):
                    await waiting
        assert told == []
        deferred = Deferred(lambda: told.append("gone"))
        waiting = asyncio.ensure_future(deferred)
        await asyncio.sleep(0)
        waiting.cancel()
        deferred.settle([b"too late, though nobody knows yet"])
        await asyncio.gather(waiting, return_exceptions=True)
        deferred.settle([b"late"])
        assert told == ["gone"]

    asyncio.run(scenario())
