"""Walking through segment files that may be damaged, without touching them."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cli.inspect.data_files import batch

from ottla.cli.inspect.segment_file import Damage, Found, ReadOnlyFile, index_entries, walk
from ottla.records.index_entries import OFFSET_ENTRY

BATCHES = [batch(offset) for offset in range(0, 10, 2)]
SIZE = len(BATCHES[0])
DATA = b"".join(BATCHES)


def walked(path: Path, data: bytes | bytearray, *, deep: bool = True) -> list[Found | Damage]:
    path.write_bytes(data)
    with ReadOnlyFile(path) as file:
        return list(walk(file, 0, deep=deep))


def offsets(found: list[Found | Damage]) -> list[int]:
    return [each.placed.header.base_offset for each in found if isinstance(each, Found)]


def damages(found: list[Found | Damage]) -> list[Damage]:
    return [each for each in found if isinstance(each, Damage)]


@pytest.mark.parametrize("deep", [True, False])
def test_sound_batches_are_found_in_their_places(tmp_path: Path, deep: bool) -> None:
    found = walked(tmp_path / "log", DATA, deep=deep)
    assert offsets(found) == [0, 2, 4, 6, 8]
    assert damages(found) == []
    assert {each.is_sound for each in found if isinstance(each, Found)} == {True if deep else None}


def test_a_whole_batch_can_be_had(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(DATA)
    with ReadOnlyFile(tmp_path / "log") as file:
        found = list(walk(file, 0, deep=False))[1]
        assert isinstance(found, Found)
        assert [record.value for record in found.batch(file).records()] == [b"value-2", b"value-3"]


def test_a_wrong_checksum_is_damage_only_for_who_looks_deep(tmp_path: Path) -> None:
    data = bytearray(DATA)
    data[SIZE + 80] ^= 1
    assert damages(walked(tmp_path / "log", data, deep=False)) == []
    found = walked(tmp_path / "log", data)
    (damage,) = damages(found)
    assert (damage.position, damage.end) == (SIZE, 2 * SIZE)
    assert damage.reason == "the checksum of the batch at offset 2 does not fit its bytes"
    assert offsets(found) == [0, 2, 4, 6, 8], "the header of the damaged batch is shown too"


def test_an_offset_that_the_next_batch_contradicts_is_damage(tmp_path: Path) -> None:
    data = bytearray(DATA)
    data[SIZE + 6] = 1
    found = walked(tmp_path / "log", data)
    assert offsets(found) == [0, 258, 4, 6, 8]
    (damage,) = damages(found)
    assert damage.reason == "offset 258, which no checksum covers, is contradicted by the next batch"


@pytest.mark.parametrize("deep", [True, False])
def test_the_walk_goes_on_behind_a_damaged_header(tmp_path: Path, deep: bool) -> None:
    data = bytearray(DATA)
    data[SIZE + 16] = 9
    found = walked(tmp_path / "log", data, deep=deep)
    assert offsets(found) == [0, 4, 6, 8]
    (damage,) = damages(found)
    assert (damage.position, damage.end) == (SIZE, 2 * SIZE)
    assert "magic is 9" in damage.reason


def test_a_torn_tail_is_named(tmp_path: Path) -> None:
    found = walked(tmp_path / "log", DATA[:-5])
    assert offsets(found) == [0, 2, 4, 6]
    (damage,) = damages(found)
    assert damage.reason == f"the batch at offset 8 claims {SIZE} bytes and {SIZE - 5} are there"
    assert damage.end == len(DATA) - 5


def test_zeros_at_the_end_are_called_that(tmp_path: Path) -> None:
    (damage,) = damages(walked(tmp_path / "log", DATA + bytes(5000)))
    assert (damage.position, damage.end) == (len(DATA), len(DATA) + 5000)
    assert "only zeros up to the end" in damage.reason


def test_offsets_that_go_back_are_damage(tmp_path: Path) -> None:
    found = walked(tmp_path / "log", bytes(BATCHES[0] + BATCHES[1] + BATCHES[0] + BATCHES[3]))
    assert offsets(found) == [0, 2, 6]
    (damage,) = damages(found)
    assert damage.reason == "offsets 0 to 1 stand where 4 or later belongs"


@settings(max_examples=60)
@given(st.data())
def test_any_damage_ends_the_walk_at_the_end_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(DATA)
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    found = walked(tmp_path_factory.mktemp("damaged") / "log", content)
    position = 0
    for each in found:
        start = each.position if isinstance(each, Damage) else each.placed.position
        assert start == position
        if isinstance(each, Damage):
            position = each.end
        elif each.is_sound:
            position = each.placed.end
    assert position == len(content)


def test_the_file_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(DATA)
    path.chmod(0o444)
    with ReadOnlyFile(path) as file:
        assert file.fileno() is not None
        with pytest.raises(PermissionError):
            file.append([b"x"])
        with pytest.raises(PermissionError):
            file.sync()
        with pytest.raises(PermissionError):
            file.truncate(0)
    assert path.read_bytes() == DATA


def test_an_index_ends_at_its_first_zero_entry() -> None:
    entries = OFFSET_ENTRY.pack(1, 100) + OFFSET_ENTRY.pack(5, 200)
    assert list(index_entries(entries + bytes(4000), OFFSET_ENTRY)) == [(1, 100), (5, 200)]
    assert list(index_entries(entries + b"odd", OFFSET_ENTRY)) == [(1, 100), (5, 200)]
    assert list(index_entries(b"", OFFSET_ENTRY)) == []
