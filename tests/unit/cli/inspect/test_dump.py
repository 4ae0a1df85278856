"""`ottla dump`, as a person and a program see it (OPS-7)."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from struct import pack
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from tests.unit.cli.inspect.data_files import (
    NOW_MS,
    SEGMENT,
    TOPIC_ID,
    batch,
    write_data_directory,
    write_partition,
)

from ottla.cli.inspect.dump import dump
from ottla.controller.records import TopicRecord, encode_record
from ottla.group.records import (
    GroupMetadataValue,
    GroupRecord,
    OffsetCommitValue,
    group_record,
    offset_record,
)
from ottla.log.producers.producer_snapshot import render_snapshot
from ottla.log.producers.producer_state import ProducedBatch, ProducerEntry, Producers
from ottla.records.batch import TimestampType
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.control import ControlRecordType, EndTransactionMarker, build_marker, control_key
from ottla.records.record import Record
from ottla.transaction.records import PartitionsSchema, TransactionLogValue, transaction_record


def run(*arguments: object) -> Result:
    return CliRunner().invoke(dump, [str(argument) for argument in arguments])


def rows(*arguments: object, exit_code: int = 0) -> list[dict[str, Any]]:
    result = run(*arguments, "--json")
    assert result.exit_code == exit_code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Offsets 0 to 9 in five batches."""
    return write_partition(tmp_path / "orders-0", [batch(offset) for offset in range(0, 10, 2)])


def test_batches_are_a_table_for_people(log: Path) -> None:
    result = run(log)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == f"{log} ({log.stat().st_size} bytes)"
    titles = next(line for line in lines if "position" in line)
    assert titles.split()[1:6] == ["first", "last", "records", "bytes", "codec"]
    assert sum("2023-11-14T22:13:20." in line for line in lines) == 5


def test_batches_are_json_lines_for_programs(log: Path) -> None:
    found = rows(log)
    assert [row["base_offset"] for row in found] == [0, 2, 4, 6, 8]
    assert found[1] == {
        "file": str(log),
        "kind": "batch",
        "position": found[0]["size_bytes"],
        "size_bytes": len(batch(2)),
        "base_offset": 2,
        "batch_length": len(batch(2)) - 12,
        "partition_leader_epoch": 0,
        "magic": 2,
        "crc": found[1]["crc"],
        "attributes": 0,
        "last_offset_delta": 1,
        "base_timestamp": NOW_MS + 2,
        "max_timestamp": NOW_MS + 3,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "records_count": 2,
        "last_offset": 3,
        "compression": "none",
        "timestamp_type": "CreateTime",
        "is_transactional": False,
        "is_control": False,
        "delete_horizon_ms": None,
        "is_sound": None,
    }


@pytest.mark.parametrize("codec", list(Compression))
def test_records_are_decoded_whatever_the_codec(tmp_path: Path, codec: Compression) -> None:
    log = write_partition(tmp_path / "orders-0", [batch(0, 3, codec)])
    kinds = [(row["kind"], row.get("key"), row.get("value")) for row in rows(log, "--records")]
    assert kinds == [("batch", None, None)] + [("record", f"key-{n}", f"value-{n}") for n in range(3)]


def test_keys_values_and_headers_of_every_kind_are_shown(tmp_path: Path) -> None:
    records = [
        Record(0, NOW_MS, None, b"text", (("h1", b"one"), ("h2", None))),
        Record(1, NOW_MS, b"\xff\xfe", None, ()),
        Record(2, -1, b"", b"v" * 500, (("\udcff", b"\x00"),)),
    ]
    log = write_partition(tmp_path / "odd-0", [build_batch(records)])
    shown = [row for row in rows(log, "--records") if row["kind"] == "record"]
    assert [(row["key"], row["value"]) for row in shown] == [
        (None, "text"),
        ({"base64": "//4="}, None),
        ("", "v" * 500),
    ]
    assert shown[0]["headers"] == [["h1", "one"], ["h2", None]]
    assert shown[2]["headers"] == [[{"base64": "/w=="}, "\0"]]
    table = run(log, "--records")
    assert table.exit_code == 0
    for text in ("h1=one, h2=-", "0xfffe", "... (500 bytes)", "?=0x00"):
        assert text in table.output


def test_a_deep_look_tells_the_checksum_of_every_batch(log: Path) -> None:
    assert [row["is_sound"] for row in rows(log, "--deep")] == [True] * 5
    assert run(log, "--deep").output.count(" yes\n") == 5


def test_damage_is_named_and_what_is_sound_is_shown(log: Path) -> None:
    data = bytearray(log.read_bytes())
    size = len(batch(0))
    data[2 * size + 70] ^= 0xFF
    log.write_bytes(data)
    found = rows(log, "--deep", "--records", exit_code=1)
    assert [row["base_offset"] for row in found if row["kind"] == "batch"] == [0, 2, 4, 6, 8]
    assert [row["offset"] for row in found if row["kind"] == "record"] == [0, 1, 2, 3, 6, 7, 8, 9]
    (damage,) = [row for row in found if row["kind"] == "damage"]
    assert (damage["position"], damage["size_bytes"]) == (2 * size, size)
    table = run(log, "--deep")
    assert table.exit_code == 1
    assert f"DAMAGED: {size} bytes at {2 * size}: the checksum of the batch at offset 4" in table.output
    assert " NO\n" in table.output


def test_records_that_cannot_be_decoded_are_damage(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[61] = 0x7F
    log.write_bytes(data)
    found = rows(log, "--records", exit_code=1)
    assert "the records of the batch at offset 0" in next(
        row["reason"] for row in found if row["kind"] == "damage"
    )
    assert [row["offset"] for row in found if row["kind"] == "record"] == [2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("offsets", "batches", "records"),
    [
        ("3..5", [2, 4], [3, 4, 5]),
        ("7..", [6, 8], [7, 8, 9]),
        ("..1", [0], [0, 1]),
        ("4", [4], [4]),
        ("100..", [], []),
    ],
)
def test_a_range_of_offsets_is_shown(log: Path, offsets: str, batches: list[int], records: list[int]) -> None:
    found = rows(log, "--records", "--offsets", offsets)
    assert [row["base_offset"] for row in found if row["kind"] == "batch"] == batches
    assert [row["offset"] for row in found if row["kind"] == "record"] == records


@pytest.mark.parametrize("offsets", ["5..3", "a..b", "-1", "..."])
def test_a_range_that_is_none_is_refused(log: Path, offsets: str) -> None:
    result = run(log, f"--offsets={offsets}")
    assert result.exit_code == 2
    assert "--offsets" in result.output


def test_a_limit_holds_for_each_file(log: Path) -> None:
    found = rows(log, log.with_suffix(".index"), "--limit", "2")
    assert [row["kind"] for row in found] == ["batch", "batch", "index entry", "index entry"]


def test_indexes_are_shown_up_to_their_last_entry(log: Path) -> None:
    index, times = log.with_suffix(".index"), log.with_suffix(".timeindex")
    index.write_bytes(index.read_bytes() + bytes(8000))
    times.write_bytes(times.read_bytes() + bytes(12000))
    size = len(batch(0))
    assert [(row["offset"], row["position"]) for row in rows(index)] == [
        (3, size),
        (5, 2 * size),
        (7, 3 * size),
        (9, 4 * size),
    ]
    assert [(row["timestamp"], row["offset"]) for row in rows(times, "--offsets", "4..7")] == [
        (NOW_MS + 5, 5),
        (NOW_MS + 7, 7),
    ]
    assert run(index, times).exit_code == 0


def test_an_index_of_an_odd_size_is_damaged(log: Path) -> None:
    index = log.with_suffix(".index")
    index.write_bytes(index.read_bytes() + b"abc")
    assert rows(index, exit_code=1)[-1]["reason"] == "35 bytes are not a whole number of entries"


def test_aborted_transactions_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.txnindex"
    path.write_bytes(pack(">hqqqq", 0, 77, 10, 20, 10))
    (row,) = rows(path)
    assert (row["producer_id"], row["first_offset"], row["last_offset"], row["last_stable_offset"]) == (
        77,
        10,
        20,
        10,
    )
    assert "last stable offset" in run(path).output


def test_producer_state_is_shown(tmp_path: Path) -> None:
    entry = ProducerEntry(3)
    entry.add(ProducedBatch(5, 8, 100, 103, NOW_MS))
    producers = Producers()
    producers.install({42: entry})
    path = tmp_path / "00000000000000000104.snapshot"
    path.write_bytes(render_snapshot(producers))
    (row,) = rows(path)
    assert (row["producer_id"], row["epoch"], row["first_sequence"], row["last_sequence"]) == (42, 3, 5, 8)
    assert "last sequence" in run(path).output
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert "checksum" in rows(path, exit_code=1)[0]["reason"]


def test_every_file_of_a_data_directory_is_shown(tmp_path: Path) -> None:
    root = write_data_directory(tmp_path / "data")
    (root / ".lock").write_text("1\n")
    found = rows(root)
    names = list(dict.fromkeys(str(Path(row["file"]).relative_to(root)) for row in found))
    assert names == [
        ".kafka_cleanshutdown",
        "log-start-offset-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "orders-0/leader-epoch-checkpoint",
        "orders-0/partition.metadata",
        f"orders-0/{SEGMENT}",
        "orders-0/00000000000000000000.index",
        "orders-0/00000000000000000000.timeindex",
    ]
    assert [row["value"] for row in found if row.get("name") == "topic_id"] == [TOPIC_ID]
    table = run(root)
    assert table.exit_code == 0
    assert '{"version":0,"brokerEpoch":-1}' in table.output


@pytest.mark.parametrize("name", ["replication-offset-checkpoint", "leader-epoch-checkpoint"])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("0\n2\n0 0\n")
    assert "1 entries and says 2" in rows(path, exit_code=1)[0]["reason"]
    path.write_bytes(b"\xff\xff")
    assert "not a checkpoint" in rows(path, exit_code=1)[0]["reason"]


def test_the_metadata_log_is_decoded_without_being_asked(tmp_path: Path) -> None:
    topic = encode_record(TopicRecord(name="orders", topic_id=UUID(int=7)))
    unknown = bytes((1, 99, 0))
    leader = Record(2, NOW_MS, control_key(ControlRecordType.LEADER_CHANGE), b"\0\0")
    data = [
        build_batch([Record(0, NOW_MS, None, topic), Record(1, NOW_MS, None, unknown)]),
        build_batch([leader], base_offset=2, is_control=True),
    ]
    log = write_partition(tmp_path / "__cluster_metadata-0", data)
    shown = [row for row in rows(log) if row["kind"] == "record"]
    assert shown[0]["metadata"] == {
        "type": "TopicRecord",
        "name": "orders",
        "topic_id": "AAAAAAAAAAAAAAAAAAAABw",
    }
    assert shown[1]["metadata"]["type"] == "unknown"
    assert "type 99" in shown[1]["metadata"]["problem"]
    assert shown[2]["control"] == {"type": "LEADER_CHANGE"}
    assert "TopicRecord name=orders topic_id=AAAAAAAAAAAAAAAAAAAABw" in run(log).output


def test_the_records_of_coordinators_are_decoded(tmp_path: Path) -> None:
    group = GroupMetadataValue("consumer", 3, "range", "m-1")
    partitions = [PartitionsSchema("orders", [0, 2])]
    state = TransactionLogValue(40, producer_epoch=7, transaction_status=2, transaction_partitions=partitions)
    logs: dict[str, list[tuple[bytes, bytes | None]]] = {
        "__consumer_offsets-4": [
            offset_record("billing", "orders", 1, OffsetCommitValue(17, metadata="here")),
            offset_record("billing", "orders", 1, None),
            group_record("billing", group),
            GroupRecord(b"\0\x63", None),
            GroupRecord(b"\0", None),
        ],
        "__transaction_state-9": [transaction_record("t-1", state), transaction_record("t-1", None)],
    }
    shown = []
    for name, records in logs.items():
        batch = build_batch([Record(n, NOW_MS, key, value) for n, (key, value) in enumerate(records)])
        log = write_partition(tmp_path / name, [batch])
        shown += [row["coordinator"] for row in rows(log, "--records") if row["kind"] == "record"]
        text = run(log, "--records").output
    assert [each["type"] for each in shown] == [
        *["Offset", "Offset", "Group", "unknown", "unknown"],
        *["Transaction", "Transaction"],
    ]
    assert (shown[0]["group"], shown[0]["partition"], shown[0]["offset"]) == ("billing", 1, 17)
    assert shown[1]["is_tombstone"]
    assert (shown[2]["generation"], shown[2]["leader"]) == (3, "m-1")
    assert shown[5]["transaction_status"] == "PrepareCommit"
    assert shown[5]["transaction_partitions"] == [{"topic": "orders", "partition_ids": [0, 2]}]
    assert "Transaction transactional_id=t-1 producer_id=40" in text
    assert "Transaction transactional_id=t-1 is_tombstone=True" in text


def test_a_snapshot_of_the_metadata_log_is_a_log(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100-0000000001.checkpoint"
    path.write_bytes(build_batch([Record(0, NOW_MS, None, encode_record(TopicRecord(name="orders")))]))
    assert "TopicRecord name=orders" in run(path).output


def test_markers_and_flags_are_shown(tmp_path: Path) -> None:
    marker = build_marker(EndTransactionMarker(True, 9), producer_id=5, producer_epoch=1, timestamp=NOW_MS)
    stamped = build_batch(
        [Record(1, NOW_MS, b"k", None)],
        base_offset=1,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        delete_horizon_ms=NOW_MS + 1000,
    )
    emptied = build_batch([], base_offset=2, last_offset_delta=3, max_timestamp=NOW_MS)
    log = write_partition(tmp_path / "txn-0", [marker, stamped, emptied])
    table = run(log).output
    assert "transactional, control" in table
    assert "append time, horizon 2023-11-14T22:13:21.000Z" in table
    assert "5/1 -1" in table
    records = run(log, "--records")
    assert "COMMIT coordinator_epoch=9" in records.output
    assert rows(log, "--records")[1]["control"] == {"type": "COMMIT", "coordinator_epoch": 9}


def test_files_that_are_on_their_way_out_or_in_are_shown_too(log: Path) -> None:
    for suffix in (".deleted", ".swap", ".cleaned", ".quarantine-0"):
        copy = log.with_name(log.name + suffix)
        copy.write_bytes(log.read_bytes())
        assert len(rows(copy)) == 5


def test_what_is_not_there_is_said_in_one_sentence_and_the_rest_is_shown(log: Path) -> None:
    result = run(log.parent / "no.log", log.parent / "nothing", log)
    assert result.exit_code == 1
    assert f"Error: there is no {log.parent / 'no.log'}\n" in result.output
    assert f"Error: there is no {log.parent / 'nothing'}\n" in result.output
    assert str(log) in result.stdout


def test_what_is_no_file_of_a_broker_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    result = run(tmp_path / "notes.txt", tmp_path)
    assert result.exit_code == 1
    assert "is no file that belongs into a data directory" in result.output
    assert "neither a data directory nor one of a partition" in result.output


def test_empty_files_say_so(tmp_path: Path) -> None:
    log = write_partition(tmp_path / "empty-0", [])
    result = run(log)
    assert result.exit_code == 0
    assert "nothing in it" in result.output


def test_a_long_log_has_its_titles_once(tmp_path: Path) -> None:
    log = write_partition(tmp_path / "long-0", [batch(offset, 1) for offset in range(1100)])
    result = run(log)
    assert result.exit_code == 0
    assert result.output.count("position") == 1
    assert len(result.output.splitlines()) == 1102


def test_a_terminal_gets_tables(log: Path) -> None:
    parent, child = pty.openpty()
    with open(parent, "rb", buffering=0) as screen:
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from ottla.cli.inspect.dump import dump; dump()",
                log.with_suffix(".index"),
            ],
            stdout=child,
            check=True,
            timeout=60,
        )
        os.close(child)
        shown = screen.read(10_000).decode()
    assert "─" in shown
    assert "offset" in shown
