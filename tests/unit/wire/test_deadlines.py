import asyncio

from ottla.wire.deadlines import Deadlines


def test_who_is_not_struck_out_in_time_expires_once() -> None:
    async def scenario() -> list[str]:
        loop, expired = asyncio.get_running_loop(), list[str]()
        deadlines = Deadlines[str](loop, expired.append)
        now = loop.time()
        deadlines.add("late", now + 0.03)
        deadlines.add("early", now + 0.01)
        deadlines.add("in time", now + 0.02)
        deadlines.discard("in time")
        deadlines.discard("never heard of")
        await asyncio.sleep(0.05)
        assert len(deadlines) == 0
        return expired

    assert asyncio.run(scenario()) == ["early", "late"]


def test_a_deadline_may_be_set_again_and_by_who_expires() -> None:
    async def scenario() -> list[str]:
        loop, expired = asyncio.get_running_loop(), list[str]()

        def again(who: str) -> None:
            expired.append(who)
            if len(expired) < 3:
                deadlines.add(who, loop.time() + 0.01)

        deadlines = Deadlines[str](loop, again)
        deadlines.add("a", loop.time() + 10)
        deadlines.add("a", loop.time() + 0.01)
        await asyncio.sleep(0.1)
        return expired

    assert asyncio.run(scenario()) == ["a", "a", "a"]


def test_many_deadlines_have_one_timer() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        deadlines = Deadlines[int](loop, lambda _: None)
        set_at = list[float]()
        call_at = loop.call_at

        def counted(when: float, *rest: object) -> asyncio.TimerHandle:
            set_at.append(when)
            return call_at(when, *rest)  # type: ignore[arg-type]

        loop.call_at = counted  # type: ignore[method-assign,assignment]
        for number in range(1000):
            deadlines.add(number, loop.time() + 30)
            deadlines.discard(number)
        assert len(set_at) == 1
        deadlines.close()

    asyncio.run(scenario())


def test_nobody_expires_after_the_end() -> None:
    async def scenario() -> list[str]:
        loop, expired = asyncio.get_running_loop(), list[str]()
        deadlines = Deadlines[str](loop, expired.append)
        deadlines.add("a", loop.time() + 0.01)
        deadlines.close()
        await asyncio.sleep(0.03)
        return expired

    assert asyncio.run(scenario()) == []
