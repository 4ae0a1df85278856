"""A short run of the protocol's fuzzer, with a new seed each time; a failure prints the command that replays
it (WIRE-5).
"""

from __future__ import annotations

from random import SystemRandom

import pytest
from tests.fuzz import fuzz_protocol
from tests.fuzz.fuzz_protocol import FindingError, fuzz

ROUNDS = 4000  # about two seconds


def test_spoiled_bytes_are_read_or_refused_and_nothing_else() -> None:
    assert fuzz(SystemRandom().randrange(2**32), rounds=ROUNDS) == ROUNDS


def test_a_finding_names_its_seed_and_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError("past the end")

    monkeypatch.setattr(fuzz_protocol, "decode", broken)
    with pytest.raises(FindingError, match="IndexError: past the end") as found:
        fuzz(7, rounds=100)
    assert "--seed 7 --round" in found.value.__notes__[0]
