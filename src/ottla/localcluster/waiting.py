"""Waiting for a condition with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

DEADLINE_S: Final = 20.0
_POLL_S: Final = 0.01


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Return when `condition` holds; raises TimeoutError that names `what` if the deadline passes first."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {deadline_s} s: {what}")
        time.sleep(_POLL_S)
