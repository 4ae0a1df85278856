"""Fuzzes the machines of every SASL mechanism, both sides: `python -m tests.fuzz.fuzz_logins --rounds 5000 --seed 7`.

Each round logs a client in through a wire that spoils, repeats, drops or exchanges tokens. Anything but a login or an
AuthenticationError is a finding, and so is a login as another user, a login through a wire that changed what proves
it, and a message with the password in it. A round depends on the seed and its number only.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache
from random import Random, SystemRandom

from tests.fuzz.fuzz_protocol import FindingError
from tests.fuzz.mutations import mutate

from ottla.security.sasl.credentials import Credentials
from ottla.security.sasl.exchange import AuthenticationError, ClientExchange, Login
from ottla.security.sasl.mechanisms import password_exchange, server_exchange
from ottla.security.sasl.oauthbearer import OAUTHBEARER, OauthBearerClient
from ottla.security.sasl.scram import SCRAM_MECHANISMS

USER, PASSWORD = "alice", "Sesame-Open-1"
MECHANISMS = ("PLAIN", *SCRAM_MECHANISMS, OAUTHBEARER)
# What is sent as it is proves itself: the rest of the message may be changed on the way.
SENT_AS_IT_IS = ("PLAIN", OAUTHBEARER)
MOST_STEPS = 6


@cache
def credentials() -> Credentials:
    """One for all rounds: credentials cost thousands of hashes, and a login none."""
    return Credentials({USER: PASSWORD, "bob": "Other-2"}, dict, b"secret")


class Wire:
    """Carries tokens, and changes some of them."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._seen: list[bytes] = []
        self._rate = random.choice([0.0, 0.3, 0.7])
        self.is_changed = False

    def carried(self, token: bytes) -> bytes:
        self._seen.append(token)
        if self._random.random() >= self._rate:
            return token
        spoiled = self._spoiled(token)
        self.is_changed |= spoiled != token
        return spoiled

    def _spoiled(self, token: bytes) -> bytes:
        random = self._random
        match random.randrange(6):
            case 0:
                return random.choice(self._seen)
            case 1:
                return b""
            case 2:
                return token[: random.randrange(len(token) + 1)]
            case 3:
                return token * random.choice([2, 1000])
            case 4:
                parts = token.split(b",")
                random.shuffle(parts)
                return b",".join(parts)
            case _:
                return mutate(token, random)


def fuzz_round(seed: int, number: int) -> bool:
    """One login, and whether it succeeded; raises FindingError."""
    random = Random(f"{seed}:{number}")
    mechanism = random.choice(MECHANISMS)
    wire = Wire(random)
    try:
        login = _logged_in(mechanism, wire, random)
    except AuthenticationError as refusal:
        if PASSWORD in str(refusal):
            raise FindingError(f"{mechanism}: the password stands in {refusal}") from refusal
        if not wire.is_changed:
            raise FindingError(f"{mechanism}: refused without a reason: {refusal}") from refusal
        return False
    except Exception as error:
        raise FindingError(f"{mechanism}: {type(error).__name__}: {error}") from error
    if login is not None and (login.user != USER or (wire.is_changed and mechanism not in SENT_AS_IT_IS)):
        raise FindingError(f"{mechanism}: a login as {login.user} through a wire that changed tokens")
    return login is not None


def _logged_in(mechanism: str, wire: Wire, random: Random) -> Login | None:
    """The login that both sides believe in; None if their exchange has no end."""
    nonce = f"{random.getrandbits(96):x}"
    client: ClientExchange
    if mechanism == OAUTHBEARER:
        client = OauthBearerClient(PASSWORD)
    else:
        client = password_exchange(mechanism, USER, PASSWORD, nonce)
    server = server_exchange(mechanism, credentials(), _checked_token, f"{random.getrandbits(96):x}")
    token: bytes | None = client.first()
    login: Login | None = None
    for _ in range(MOST_STEPS):
        if token is None:
            return login
        step = server.respond(wire.carried(token))
        login = step.login
        if login is not None and not step.token:
            return login
        token = client.respond(wire.carried(step.token))
    return None


def _checked_token(token: str) -> Login:
    if token != PASSWORD:
        raise AuthenticationError("another token")
    return Login(USER)


def fuzz(seed: int, rounds: int, *, first: int = 0) -> int:
    """Play rounds; how many of them logged in."""
    logins = 0
    for number in range(first, first + rounds):
        try:
            logins += fuzz_round(seed, number)
        except FindingError as finding:
            finding.add_note(f"replay: python -m tests.fuzz.fuzz_logins --seed {seed} --round {number}")
            raise
    return logins


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the machines of SASL mechanisms.")
    parser.add_argument("--rounds", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    parser.add_argument("--round", type=int, help="play this round only, to replay a finding")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    is_one = arguments.round is not None
    logins = fuzz(arguments.seed, 1 if is_one else arguments.rounds, first=arguments.round or 0)
    print(f"nothing found, {logins} logins succeeded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
