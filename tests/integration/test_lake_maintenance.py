"""Tables are compared with their topics, their small files merged, old snapshots and orphaned files removed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.integration.lake_place import FORMATS, LakePlace, all_of, orders

import ottla.testing
from ottla.cli.main import ottla as command
from ottla.lake.comparison import compare
from ottla.lake.maintenance import compact, expire
from ottla.lake.plan.table_offsets import TableOffsets
from ottla.lake.tables.table import Change, DataFile
from ottla.lake.topic import Cluster
from ottla.lake.writing.file_writer import FileWriter
from ottla.lake.writing.job import TableWriter


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.testing.EmbeddedBroker]:
    with ottla.testing.broker() as running:
        yield running


@pytest.fixture
def place(broker: ottla.testing.EmbeddedBroker, tmp_path: Path) -> LakePlace:
    return LakePlace(broker, tmp_path)


def files_of(place: LakePlace) -> list[DataFile]:
    with place.warehouse.table(place.warehouse.definition(place.topic)) as table:
        return table.files(table.snapshot())


def now_ms() -> int:
    return int(time.time() * 1000) + 1


@pytest.mark.parametrize("table_format", FORMATS)
def test_small_files_become_one_and_what_nobody_needs_is_deleted(place: LakePlace, table_format: str) -> None:
    definition = place.enable(format=table_format, value="json")
    place.produce([*orders(0, 30), b"junk"])
    list(place.writer(records_per_commit=8).run())
    old = files_of(place)
    orphan = Path(old[0].path).with_name("orphan.parquet")
    orphan.write_bytes(Path(old[0].path).read_bytes())
    done = compact(place.warehouse, definition)
    assert (done.files_before, done.files_after, done.rows) == (len(old), 2, 30)
    assert compact(place.warehouse, definition).files_before == 0
    assert expire(place.warehouse, definition, 0, 0) == 0
    assert orphan.exists()
    assert expire(place.warehouse, definition, now_ms(), now_ms()) == len(old) + 1
    assert not orphan.exists()
    assert place.rows() == all_of(30)
    assert [
        each.is_equal for each in compare(place.warehouse, Cluster(place.broker.bootstrap), place.topic)
    ] == [True] * 2
    place.produce(orders(31, 41))
    assert [each.rows for each in place.writer().run()] == [10]
    assert len(place.rows()) == 40
    assert place.sql("SELECT count(*) AS n FROM TOPIC__dead_letters") == [{"n": 1}]


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_merge_and_a_writer_do_not_disturb_each_other(place: LakePlace, table_format: str) -> None:
    definition = place.enable(format=table_format)
    place.produce(orders(0, 20))
    list(place.writer(records_per_commit=8).run())
    place.produce(orders(20, 30))
    written: list[str] = []

    def meanwhile(step: str) -> None:
        if step == "files written":
            written.append(step)
            compact(place.warehouse, definition)

    writer = TableWriter(place.warehouse, definition, Cluster(place.broker.bootstrap), on_step=meanwhile)
    assert [each.rows for each in writer.run()] == [10]
    assert written == ["files written"]  # the files were written once, and committed on top of the merge
    assert (place.rows(), place.table_rows()) == (all_of(30), 30)


def test_a_table_that_is_not_its_topic_is_found_out(
    place: LakePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", place.broker.bootstrap)
    monkeypatch.setenv("OTTLA_WAREHOUSE", place.warehouse.location)
    definition = place.enable(format="parquet")
    check = ["lake", "check", place.topic]
    assert "has no commit yet" in CliRunner().invoke(command, check).output
    place.produce(orders(0, 20))
    list(place.writer().run())
    done = CliRunner().invoke(command, check)
    assert done.exit_code == 0
    assert "holds each record exactly once" in done.output
    with place.warehouse.table(definition) as table:
        base = table.snapshot()
        broken = pq.read_table(files_of(place)[0].path).to_pylist()
        partition = broken[0]["partition"]
        broken[3]["value"] = b"another"
        rows = pq.read_table(files_of(place)[0].path).from_pylist(
            [*broken[:5], *broken[6:], broken[0], {**broken[0], "offset": 99}], schema=base.schema
        )
        writer = FileWriter(definition, table.data_location, "broken")
        writer.write(rows)
        assert isinstance(base.offsets, TableOffsets)
        table.commit(base, Change(base.offsets, base.schema, writer.finish(), [files_of(place)[0]]))
    done = CliRunner().invoke(command, [*check, "--json"])
    assert done.exit_code == 1
    found = {each["partition"]: each for each in json.loads(done.output)}[partition]
    assert (found["missing"], found["duplicates"], found["extra"]) == ([5], [0], [99])
    assert "NOT EQUAL" in CliRunner().invoke(command, check).output


def test_a_changed_value_is_found(place: LakePlace) -> None:
    definition = place.enable(value="json", format="parquet")
    place.produce(orders(0, 10))
    list(place.writer().run())
    with place.warehouse.table(definition) as table:
        base, old = table.snapshot(), files_of(place)[0]
        rows = pq.read_table(old.path).to_pylist()
        rows[3]["amount"] = -1.0
        writer = FileWriter(definition, table.data_location, "changed")
        writer.write(pq.read_table(old.path).from_pylist(rows, schema=base.schema))
        assert base.offsets is not None
        table.commit(base, Change(base.offsets, base.schema, writer.finish(), [old]))
    verdicts = compare(place.warehouse, Cluster(place.broker.bootstrap), place.topic)
    assert sorted(each.altered for each in verdicts) == [[], [rows[3]["offset"]]]
