"""The clock of timeouts, sessions and replication: it never goes back, whatever sets the time of day."""

import time


def monotonic_ms() -> int:
    """Milliseconds since an arbitrary moment."""
    return time.monotonic_ns() // 1_000_000
