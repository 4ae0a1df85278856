"""Request time: each step of a request counts, waiting does not, and a pause is at most a window (OPS-4)."""

from __future__ import annotations

import asyncio

from ottla.config import QuotaConfig
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.server.gate.quotas import Quotas
from ottla.server.gate.request_time import Timed, throttled
from ottla.server.gate.session import Session

PERCENT = 10
CONFIG = QuotaConfig(window_num=1, window_size_seconds=1)


class Loop:
    """A loop's clock that a test sets, and quotas by it: ten percent of a second at once."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.quotas = Quotas(CONFIG, lambda: int(self.now_s * 1000), lambda: self.now_s)
        self.quotas.apply({(("user", None),): {"request_percentage": PERCENT}})

    def work(self, seconds: float) -> None:
        self.now_s += seconds


def session() -> Session:
    return Session("PLAINTEXT", "127.0.0.1", 1)


def test_work_within_the_quota_is_free_and_work_beyond_it_mutes_for_as_long_as_it_takes_to_earn_it() -> None:
    async def story() -> None:
        loop, client = Loop(), session()
        loop.quotas.begin_work()
        loop.work(0.05)
        assert loop.quotas.worked(client) == 0
        loop.work(0.07)
        # 120 ms of work, of which 100 were free and 7 were earned meanwhile: 13 ms are earned in 130.
        assert loop.quotas.worked(client) == 131
        assert client.throttled_until_ms is not None
        client.close()

    asyncio.run(story())


def test_a_pause_for_request_time_is_at_most_a_window() -> None:
    async def story() -> None:
        loop, client = Loop(), session()
        loop.quotas.begin_work()
        loop.work(10)
        assert loop.quotas.worked(client) == 1000
        client.close()

    asyncio.run(story())


def test_the_end_of_the_work_counts_for_the_next_request_and_other_nodes_have_no_quota() -> None:
    async def story() -> None:
        loop, client, node = Loop(), session(), session()
        node.speaks_for_node(True)
        loop.quotas.begin_work()
        loop.work(10)
        loop.quotas.end_work(node)
        assert loop.quotas.worked(client) == 0
        loop.quotas.begin_work()
        loop.work(0.15)
        loop.quotas.end_work(client)
        assert client.throttled_until_ms is None
        loop.quotas.begin_work()
        assert loop.quotas.worked(client) > 0
        client.close()

    asyncio.run(story())


def test_the_steps_of_a_request_that_waits_count_and_the_waiting_does_not() -> None:
    async def story() -> None:
        loop, client = Loop(), session()
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def request() -> str:
            loop.work(0.08)
            await reached
            loop.work(0.08)
            return "answer"

        asked = asyncio.ensure_future(Timed(request(), loop.quotas, client))
        await asyncio.sleep(0)
        loop.work(0.1)  # somebody else's
        reached.set_result(None)
        assert await asked == "answer"
        assert 0 < loop.quotas.worked(client) < 600
        client.close()

    asyncio.run(story())


def test_a_request_that_waits_can_be_broken_off_and_fails_as_it_would_untimed() -> None:
    async def story() -> None:
        loop, client, seen = Loop(), session(), []

        async def request() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        async def failing() -> None:
            await asyncio.sleep(0)
            raise ValueError("wrong")

        asked = asyncio.ensure_future(Timed(request(), loop.quotas, client))
        failed = asyncio.ensure_future(Timed(failing(), loop.quotas, client))
        await asyncio.sleep(0)
        asked.cancel()
        outcomes = await asyncio.gather(asked, failed, return_exceptions=True)
        assert [type(each) for each in outcomes] == [asyncio.CancelledError, ValueError]
        assert seen == ["cancelled"]

    asyncio.run(story())


def test_a_shorter_throttle_time_does_not_end_a_longer_one() -> None:
    async def story() -> None:
        loop, client = Loop(), session()
        loop.quotas.mute(client, 500)
        loop.quotas.mute(client, 100)
        assert client.throttled_until_ms == 500
        client.unmute(100)
        assert client.throttled_until_ms == 500
        client.unmute(500)
        assert client.throttled_until_ms is None
        client.close()

    asyncio.run(story())


def test_records_that_a_throttled_fetch_did_not_get_do_not_count() -> None:
    async def story() -> None:
        loop, client = Loop(), session()
        loop.quotas.apply({(("user", None),): {"consumer_byte_rate": 1000.0}})
        assert loop.quotas.fetched(client, 900) == 0
        assert [loop.quotas.fetched(client, 200) for _ in range(3)] == [101, 101, 101]
        loop.now_s = 0.101
        assert loop.quotas.fetched(client, 200) == 0
        client.close()

    asyncio.run(story())


def test_an_answer_says_the_longer_of_two_throttle_times() -> None:
    answer = MetadataResponse(throttle_time_ms=5)
    assert throttled(answer, 0) is answer
    assert throttled(answer, 7).throttle_time_ms == 7
    assert answer.throttle_time_ms == 5
    assert throttled([b"parts"], 7) == [b"parts"]
