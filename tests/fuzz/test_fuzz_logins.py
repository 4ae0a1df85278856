"""A short run of the fuzzer of logins, with a new seed each time; a failure prints the command that replays it (WIRE-5,
OPS-5).
"""

from __future__ import annotations

from random import SystemRandom

import pytest
from tests.fuzz import fuzz_logins
from tests.fuzz.fuzz_logins import fuzz
from tests.fuzz.fuzz_protocol import FindingError

from ottla.security.sasl.exchange import Login, Step

ROUNDS = 1000  # about a second and a half


def test_spoiled_logins_are_refused_and_others_succeed() -> None:
    logins = fuzz(SystemRandom().randrange(2**32), ROUNDS)
    assert ROUNDS // 3 < logins < ROUNDS


def test_a_server_that_lets_everybody_in_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gullible:
        def respond(self, token: bytes) -> Step:
            return Step(b"", Login(token.decode(errors="replace")))

    monkeypatch.setattr(fuzz_logins, "server_exchange", lambda *_: Gullible())
    with pytest.raises(FindingError, match="a login as") as found:
        fuzz(7, 100)
    assert "--seed 7 --round" in found.value.__notes__[0]
