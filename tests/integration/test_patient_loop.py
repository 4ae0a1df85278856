"""The loop of the tests counts time while it runs and waits, and not while its process is held up."""

import asyncio
import time

from tests.patient_loop import PatientLoop


def test_the_clock_goes_on_while_the_loop_waits() -> None:
    async def waits() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        began_s, began_real_s = loop.time(), time.monotonic()
        await asyncio.sleep(0.2)
        return loop.time() - began_s, time.monotonic() - began_real_s

    counted_s, passed_s = asyncio.run(waits())
    assert 0.2 <= counted_s <= passed_s


def test_the_clock_stands_still_while_the_process_is_held_up() -> None:
    async def is_held_up() -> float:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        time.sleep(0.5)  # noqa: ASYNC251 - this is what being held up looks like
        return loop.time() - began_s

    assert asyncio.run(is_held_up()) < 0.1


def test_a_timeout_does_not_fire_for_time_that_was_not_counted() -> None:
    async def finishes_after_a_stall() -> str:
        async with asyncio.timeout(0.3):
            await asyncio.sleep(0.01)
            time.sleep(0.5)  # noqa: ASYNC251
            await asyncio.sleep(0.01)
        return "finished"

    assert asyncio.run(finishes_after_a_stall()) == "finished"


def test_every_loop_of_a_test_is_patient() -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert isinstance(asyncio.run(loop()), PatientLoop)
