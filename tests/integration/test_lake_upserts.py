"""Upsert tables: the newest value of each key, deletes by null values, table and log as one (PIPE-5)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.lake_place import FORMATS, LakePlace

import ottla.lake
import ottla.testing
from ottla.blocking import Producer
from ottla.lake.comparison import compare
from ottla.lake.maintenance import compact, expire
from ottla.lake.plan.conditions import ConditionError
from ottla.lake.tables.table import TableError
from ottla.lake.topic import Cluster


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.testing.EmbeddedBroker]:
    with ottla.testing.broker() as running:
        yield running


@pytest.fixture
def place(broker: ottla.testing.EmbeddedBroker, tmp_path: Path) -> LakePlace:
    return LakePlace(broker, tmp_path)


def send(place: LakePlace, pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    with Producer(place.broker.bootstrap) as producer:
        for key, value in pairs:
            producer.send_soon(place.topic, value, key=key)
        producer.flush()


def state(place: LakePlace, **given: Any) -> dict[bytes, Any]:
    """The rows of table and log by key; a key that is there twice is an error."""
    rows = ottla.lake.scan(
        place.topic, bootstrap=place.broker.bootstrap, warehouse=place.warehouse.location, **given
    ).read_all()
    keys = rows["key"].to_pylist()
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, rows["n"].to_pylist(), strict=True))


@pytest.mark.parametrize("table_format", FORMATS)
def test_table_and_log_have_the_newest_value_of_each_key(place: LakePlace, table_format: str) -> None:
    definition = place.enable(format=table_format, value="json", mode="upsert", partition_by="key:3")
    dice, expected = random.Random(7), dict[bytes, int]()
    for step in range(6):
        pairs: list[tuple[bytes | None, bytes | None]] = []
        for _ in range(25):
            key, number = b"k%d" % dice.randrange(12), dice.randrange(1000)
            is_deleted = dice.random() < 0.3
            pairs.append((key, None if is_deleted else b'{"n":%d}' % number))
            expected.pop(key, None)
            if not is_deleted:
                expected[key] = number
        send(place, pairs)
        assert state(place) == expected
        if step % 2 == 0:
            list(place.writer(records_per_commit=20).run())
            assert place.table_rows() == len(expected)
        assert state(place, where="n >= 500") == {key: n for key, n in expected.items() if n >= 500}
        assert place.sql("SELECT sum(n)::BIGINT AS s FROM TOPIC") == [{"s": sum(expected.values())}]
    compact(place.warehouse, definition)
    expire(place.warehouse, definition, 2**42, 2**42)
    assert state(place) == expected


def test_a_record_without_a_key_is_a_dead_letter(place: LakePlace) -> None:
    place.enable(value="json", mode="upsert", partition_by="key:2")
    send(place, [(b"a", b'{"n":1}'), (None, b'{"n":2}')])
    assert state(place) == {b"a": 1}
    (done,) = place.writer().run()
    assert (done.rows, done.dead_letters) == (1, 1)
    assert place.sql("SELECT reason LIKE '%has none%' AS r FROM TOPIC__dead_letters") == [{"r": True}]


def test_what_an_upsert_table_cannot_do_is_refused(place: LakePlace) -> None:
    place.enable(mode="upsert", partition_by="key:2")
    with pytest.raises(ConditionError, match="cannot travel in time"):
        state(place, at="2026-01-01")
    with pytest.raises(TableError, match="cannot be compared"):
        compare(place.warehouse, Cluster(place.broker.bootstrap), place.topic)
