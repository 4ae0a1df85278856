"""The clock of replication: milliseconds that only rise, whoever sets the time of day."""

import time


def steady_ms() -> int:
    """Milliseconds since some moment."""
    return time.monotonic_ns() // 1_000_000
