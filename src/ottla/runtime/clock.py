"""Two clocks: a monotonic one for timeouts, sessions and replication, and the time of day for records.

Monotonic time is the running event loop's time, so that a loop with virtual time has one clock for its timers
and for the code that computes deadlines. The time of day may jump when an operator or NTP sets it.
"""

import asyncio
import time
from typing import Final, Protocol


def monotonic_ms() -> int:
    """Whole milliseconds of the running event loop's clock; outside a loop, of the system's monotonic
    clock.
    """
    return int(monotonic_s() * 1000)


def precise_ms() -> float:
    """Milliseconds of the same clock as `monotonic_ms`, with their fraction."""
    return monotonic_s() * 1000


def monotonic_s() -> float:
    """Seconds of the same clock as `monotonic_ms`."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()


class Clock(Protocol):
    """The time of day, and the time since the machine started."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""

    def wall_s(self) -> float:
        """Seconds since 1970."""

    def boot_ms(self) -> int:
        """Milliseconds of a clock that is never set and goes on while the machine sleeps."""


# Where there is no clock that counts the machine's sleep, the monotonic one has to do.
_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class OsClock:
    """The operating system's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000

    # No method of its own: the producer asks for every record.
    wall_s = staticmethod(time.time)
