import asyncio

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.server.answers.watermark import Watermark


def test_a_value_that_is_already_there_is_not_waited_for() -> None:
    async def scenario() -> None:
        await Watermark(5).reached(5)

    asyncio.run(scenario())


def test_each_waiter_wakes_when_its_own_value_is_reached() -> None:
    async def scenario() -> list[int]:
        watermark = Watermark(0)
        woken: list[int] = []

        async def wait(value: int) -> None:
            await watermark.reached(value)
            woken.append(value)

        tasks = [asyncio.ensure_future(wait(value)) for value in (30, 10, 20)]
        await asyncio.sleep(0)
        watermark.advance(20)
        await asyncio.gather(*tasks[1:])
        assert woken == [10, 20]
        watermark.advance(35)
        await tasks[0]
        return woken

    assert asyncio.run(scenario()) == [10, 20, 30]


def test_it_never_goes_back() -> None:
    watermark = Watermark(7)
    watermark.advance(3)
    assert watermark.value == 7


def test_a_failure_reaches_those_who_wait_and_those_who_come_later() -> None:
    async def scenario() -> None:
        watermark = Watermark(0)
        waiting = asyncio.ensure_future(watermark.reached(1))
        await asyncio.sleep(0)
        watermark.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
        for wait in (waiting, watermark.reached(2)):
            with pytest.raises(KafkaError):
                await wait
        await watermark.reached(0)

    asyncio.run(scenario())


def test_a_waiter_that_gave_up_does_no_harm() -> None:
    async def scenario() -> None:
        watermark = Watermark(0)
        waiting = asyncio.ensure_future(watermark.reached(1))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        watermark.advance(1)
        assert not watermark.is_awaited

    asyncio.run(scenario())
