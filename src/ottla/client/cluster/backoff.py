"""How long to wait before a failed request is tried again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from ottla.runtime.randomness import jitter

_FIRST_WAIT_MS: Final = 50
# A longer pause would make a person wait for a broker that has been back for a while.
_LONGEST_WAIT_MS: Final = 1_000


def waits_ms() -> Iterator[int]:
    """The pauses after the first failure, the second, and so on."""
    return map(backoff_ms, itertools.count(1))


def backoff_ms(failures: int) -> int:
    """The pause after `failures` failures in a row: it doubles up to a second.

    Each pause is shortened by up to a fifth at random, so that many clients do not come back at the same
    moment.
    """
    # The exponent has a bound: beyond it only the intermediate number would grow.
    return round(min(_FIRST_WAIT_MS << min(failures - 1, 10), _LONGEST_WAIT_MS) * jitter(0.8, 1.0))
