"""Fuzzes every codec and the frame reader: `python -m tests.fuzz.fuzz_protocol --seconds 30 --seed 7`.

Each round takes one message and version, writes a random valid message, spoils its bytes and reads them as a
listener or a client would. Anything but a message or a DecodeError is a finding, and so is a message that
does not survive being written and read again. A round depends on the seed and its number only: a finding
prints the command that replays it.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from random import Random, SystemRandom
from typing import Any

from tests.conformance.declared import declared_versions
from tests.fuzz.mutations import mutate
from tests.fuzz.random_messages import random_message

from ottla.protocol.apis import APIS
from ottla.protocol.codec import DecodeError, codec, decode, encode
from ottla.protocol.frame import (
    SIZE_BYTES,
    RequestHeader,
    read_request_header,
    read_response,
    response_frame,
    write_request,
)


class FindingError(AssertionError):
    """Bytes that did what no bytes may do."""


def fuzz_round(seed: int, number: int, targets: list[tuple[type[Any], int]]) -> None:
    """One round; raises FindingError."""
    random = Random(f"{seed}:{number}")
    cls, version = random.choice(targets)
    data = b""
    try:
        if random.random() < 0.7:
            data = mutate(encode(random_message(cls, version, random), version), random)
            _check_message(cls, data, _nearby(version, random))
        else:
            data = _frame(random)
            _check_frame(data, random)
    except FindingError:
        raise
    except Exception as error:
        raise FindingError(
            f"{cls.__name__} v{version}: {data.hex()}: {type(error).__name__}: {error}"
        ) from error


def _nearby(version: int, random: Random) -> int:
    """Now and then another version than the one the bytes were written in."""
    return version if random.random() < 0.8 else version + random.randint(-3, 3)


def _check_message(cls: type[Any], data: bytes, version: int) -> None:
    try:
        message = decode(cls, data, version)
    except DecodeError:
        return
    again = decode(cls, encode(message, version), version)
    if again != message:
        raise FindingError(f"{cls.__name__} v{version}: {data.hex()} is read as {message}, then as {again}")


def _frame(random: Random) -> bytes:
    """A spoiled request or response, without its size."""
    api = random.choice(list(APIS.values()))
    version = random.randint(api.min_version, api.max_version)
    if random.random() < 0.5:
        out = response_frame(1, api.key, version, random_message(api.response, version, random))
    else:
        out = bytearray()
        header = RequestHeader(api.key, version, random.getrandbits(31), random.choice([None, "", "client"]))
        write_request(header, random_message(api.request, version, random), out)
    return mutate(out[SIZE_BYTES:], random)


def _check_frame(data: bytes, random: Random) -> None:
    view = memoryview(data)
    with suppress(DecodeError):
        header, position = read_request_header(view)
        served = APIS.get(header.api_key)
        if served is not None and served.serves(header.api_version):
            codec(served.request, header.api_version).read(view, position)
    asked = random.choice(list(APIS.values()))
    with suppress(DecodeError):
        read_response(asked.key, random.randint(asked.min_version - 1, asked.max_version + 1), view)


def fuzz(seed: int, *, first: int = 0, rounds: int | None = None, seconds: float | None = None) -> int:
    """Play rounds until their number or the time is up; the number of rounds played."""
    targets = declared_versions()
    deadline = None if seconds is None else time.monotonic() + seconds
    number = first
    while (rounds is None or number < first + rounds) and (deadline is None or time.monotonic() < deadline):
        try:
            fuzz_round(seed, number, targets)
        except FindingError as finding:
            finding.add_note(f"replay: python -m tests.fuzz.fuzz_protocol --seed {seed} --round {number}")
            raise
        number += 1
    return number - first


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the protocol's codecs.")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    parser.add_argument("--round", type=int, help="play this round only, to replay a finding")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    if arguments.round is not None:
        played = fuzz(arguments.seed, first=arguments.round, rounds=1)
    else:
        played = fuzz(arguments.seed, seconds=arguments.seconds)
    print(f"{played} rounds, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
