"""A segment written to an object store: byte for byte, or not at all."""

from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from crc32c import crc32c
from tests.unit.log.batches import batch
from tests.unit.log.logs import append, config, open_log
from tests.unit.log.tiers.lying_store import LyingStore, fails

from ottla.log.log import Log
from ottla.log.tiers.object_names import object_name, segment_id_in, topic_prefix
from ottla.log.tiers.segment_copy import SegmentCopy, plan_copy
from ottla.records.corruption import CorruptRecord
from ottla.runtime.disk import OsDisk
from ottla.runtime.object_store import StoreError

TOPIC_ID, SEGMENT_ID = UUID(int=5), UUID(int=6)
NAME = partial(object_name, "orders", TOPIC_ID, 0, 0, SEGMENT_ID)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    (tmp_path / "orders-0").mkdir()
    log = open_log(
        OsDisk(),
        directory=str(tmp_path / "orders-0"),
        settings=config(segment_bytes=2000, index_interval_bytes=100),
    )
    for number in range(40):
        append(log, batch(2, value=b"%d" % number * 50), leader_epoch=number // 15)
    return log


@pytest.fixture
def copy(log: Log) -> SegmentCopy:
    return plan_copy(log, log.extent.segments[0], NAME)


def test_every_file_is_an_object_with_the_same_bytes(log: Log, copy: SegmentCopy) -> None:
    store, directory = LyingStore(), Path(log.directory)
    copied = copy.run(store).objects
    base = f"{0:020d}"
    for kind in (".log", ".index", ".timeindex"):
        assert store.objects[NAME(kind)] == (directory / f"{base}{kind}").read_bytes()
    following = log.extent.segments[1].base_offset
    assert store.objects[NAME(".snapshot")] == (directory / f"{following:020d}.snapshot").read_bytes()
    assert store.objects[NAME(".epochs")] == b"0\n1\n0 0\n"
    assert {each.kind: (each.size_bytes, each.crc) for each in copied} == {
        Path(name).suffix: (len(data), crc32c(data)) for name, data in store.objects.items()
    }
    assert copied[0].kind == ".log"


@pytest.mark.parametrize(
    "lie",
    [
        lambda name, data: data[:-1],
        lambda name, data: data + b"!",
        lambda name, data: data[:5] + bytes([data[5] ^ 1]) + data[6:],
        lambda name, data: None,
        lambda name, data: b"",
    ],
    ids=["torn", "longer", "other bytes", "forgotten", "empty"],
)
@pytest.mark.parametrize("kind", [".log", ".timeindex", ".epochs"])
def test_a_store_that_kept_something_else_is_found_out(copy: SegmentCopy, lie: object, kind: str) -> None:
    store = LyingStore()
    store.on_put = lambda name, data: lie(name, data) if name.endswith(kind) else data  # type: ignore[operator]
    with pytest.raises(StoreError):
        copy.run(store)


@pytest.mark.parametrize(
    "lie",
    [lambda name, data: data[:-1], lambda name, data: b"", fails("503")],
    ids=["short", "nothing", "503"],
)
def test_a_store_that_does_not_give_it_back_is_not_believed(copy: SegmentCopy, lie: object) -> None:
    store = LyingStore()
    store.on_get = lie  # type: ignore[assignment]
    with pytest.raises(StoreError):
        copy.run(store)


def test_the_second_attempt_writes_the_same_objects(copy: SegmentCopy) -> None:
    store = LyingStore()
    store.on_put = fails("full")
    with pytest.raises(StoreError, match="full"):
        copy.run(store)
    store.on_put = lambda name, data: data
    assert copy.run(store) == copy.run(store)


def test_a_file_that_was_deleted_meanwhile_is_an_error_of_the_disk(log: Log, copy: SegmentCopy) -> None:
    (Path(log.directory) / f"{0:020d}.log").unlink()
    with pytest.raises(OSError, match="No such file"):
        copy.run(LyingStore())


def test_a_damaged_segment_is_not_copied(log: Log, copy: SegmentCopy) -> None:
    path, store = Path(log.directory) / f"{0:020d}.log", LyingStore()
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecord):
        copy.run(store)
    assert not store.objects


def test_epochs_are_those_of_the_segments_records_below_the_log_start_too(log: Log) -> None:
    segment = next(each for each in log.extent.segments if each.base_offset < 30 < each.next_offset)
    log.advance_log_start_offset(31)
    epochs = plan_copy(log, segment, NAME).run(LyingStore()).epochs
    assert epochs == ((0, segment.base_offset), (1, 30))


def test_an_objects_name_tells_its_segment() -> None:
    name = NAME(".log")
    assert name.startswith(topic_prefix("orders", TOPIC_ID) + "0/" + "0" * 20)
    assert segment_id_in(name) == SEGMENT_ID
    for other in ("readme.txt", "orders/0/00.log", "a/0/00000000000000000000-short.log"):
        assert segment_id_in(other) is None
