"""Randomness: identifiers that must not meet, numbers that spread load, and jitter for retries."""

import random
from typing import Protocol
from uuid import UUID, uuid4

# Jitter comes from the interpreter's generator, because retries happen in places that have no collaborator to
# ask. A simulation seeds the generator before each run.
jitter = random.uniform


def unique_hex() -> str:
    """Thirty-two hexadecimal digits for the name of a file; from the same generator as `jitter`."""
    return f"{random.getrandbits(128):032x}"


def new_nonce() -> str:
    """Thirty-two hexadecimal digits that nobody can foresee, from the operating system's entropy."""
    return uuid4().hex


class Randomness(Protocol):
    """The draws of one node or client."""

    def random(self) -> float:
        """A number from 0.0 up to, but not including, 1.0."""

    def randrange(self, start: int, stop: int | None = None) -> int:
        """A number from `start` up to, but not including, `stop`; with one argument, from 0 up to it."""

    def uuid4(self) -> UUID:
        """A random UUID."""


class OsRandomness(random.Random):
    """A generator seeded by the operating system, and UUIDs from the operating system's entropy."""

    def uuid4(self) -> UUID:
        return uuid4()
