"""Records as applications write them: keys of which few are frequent, JSON of many sizes, headers on some.

Benchmarks with one value for all records flatter a client: every length is the same, compression finds
everything again, and nothing but the value has to be decoded. These records differ in all of that, and are
the same in each run.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Final

SEED: Final = 20_260_101
DISTINCT: Final = 20_000  # enough that no batch holds a record twice
KEYS: Final = 5_000
ZIPF_EXPONENT: Final = 1.1  # the most frequent key is on about a seventh of the records
SMALLEST, LARGEST = 60, 900  # bytes of a value
MEDIAN_BYTES, SIGMA = 240, 0.6  # of the log-normal distribution of sizes, before both ends are cut off
HEADERS: Final = [("trace", b"00-4bf92f3577b34da6a3ce929d0e0e4736-01"), ("source", b"web")]
WORDS: Final = [
    "coffee",
    "tea",
    "cake",
    "window",
    "table",
    "quick",
    "slow",
    "paid",
    "open",
    "late",
    "large",
    "small",
    "north",
    "south",
    "with",
    "without",
]


@dataclass(frozen=True, slots=True)
class MixedRecord:
    """One record to send; two of three have no headers."""

    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


def mixed_records(count: int = DISTINCT) -> list[MixedRecord]:
    """The first `count` records of the sequence, which does not depend on the run."""
    draw = random.Random(SEED)
    weights = [1 / rank**ZIPF_EXPONENT for rank in range(1, KEYS + 1)]
    ranks = draw.choices(range(KEYS), weights, k=count)
    return [
        MixedRecord(
            b"customer-%05d" % rank, _value(draw, number, rank), HEADERS if draw.random() < 1 / 3 else []
        )
        for number, rank in enumerate(ranks)
    ]


def _value(draw: random.Random, number: int, rank: int) -> bytes:
    """An order whose note fills it to the drawn size."""
    size = min(LARGEST, max(SMALLEST, int(MEDIAN_BYTES * draw.lognormvariate(0, SIGMA))))
    order = {"order": number, "customer": rank, "cents": draw.randrange(10_000), "note": ""}
    room = size - len(json.dumps(order))
    note = ""
    while len(note) < room:
        note += draw.choice(WORDS) + " "
    return json.dumps(order | {"note": note[: max(0, room)]}).encode()
