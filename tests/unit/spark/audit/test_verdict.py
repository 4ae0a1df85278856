"""The verdict of an audit's numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.spark.audit.verdict import (
    Fault,
    Offender,
    OffsetRun,
    PartitionAudit,
    Side,
    Verdict,
    as_json,
    notes,
    runs,
    sentence,
)

WHOLE = Side(count=10, distinct=10, first_offset=0, last_offset=9, checksum=-1, offset_checksum=1 << 70)
EQUAL = PartitionAudit(0, 0, 10, WHOLE, WHOLE)


def verdict(*partitions: PartitionAudit, compared: str | None = "value", nameless: int = 0) -> Verdict:
    return Verdict("orders", "/tables/orders", compared, partitions, nameless)


def test_equal_is_said_with_the_number_of_records() -> None:
    found = verdict(EQUAL, replace(EQUAL, partition=1))
    assert found.is_equal
    assert sentence(found) == "EQUAL: 20 records, each exactly once in the table, each with the same value."
    assert notes(found) == []


def test_nothing_on_both_sides_is_equal() -> None:
    assert sentence(verdict(PartitionAudit(0, 0, 0, Side(), Side()))).startswith("EQUAL: there is no record")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        ("missing", "3 missing from the table"),
        ("duplicates", "3 too many in the table"),
        ("extra", "3 in the table only"),
        ("altered", "3 with another value"),
        ("read_twice", "3 read twice from the topic"),
    ],
)
def test_every_fault_makes_the_tables_differ(count: str, words: str) -> None:
    found = verdict(EQUAL, replace(EQUAL, **{count: 3}))  # type: ignore[arg-type]
    assert not found.is_equal
    assert sentence(found) == f"NOT EQUAL: {words}."


def test_rows_without_a_place_make_the_tables_differ() -> None:
    assert sentence(verdict(EQUAL, nameless=2)) == "NOT EQUAL: 2 without partition or offset."


def test_what_cannot_be_compared_any_more_is_no_fault_and_is_said() -> None:
    found = verdict(replace(EQUAL, older=4, compacted=5, end=13), compared=None)
    assert found.is_equal
    said = " ".join(notes(found))
    for words in ("4 rows are older", "5 rows came from records that compaction", "3 offsets hold no record"):
        assert words in said
    assert "Only offsets were compared" in said


def test_a_table_that_is_behind_is_told_so() -> None:
    assert (
        "2 of the missing records come after the table's last one"
        in notes(verdict(replace(EQUAL, missing=3, behind=2)))[0]
    )


def test_neighbours_with_the_same_fault_are_one_run() -> None:
    places = [(0, 1, Fault.MISSING), (0, 2, Fault.MISSING), (0, 3, Fault.DUPLICATE), (1, 4, Fault.MISSING)]
    found = runs(Offender(*place) for place in places)
    assert found == [
        OffsetRun(0, 1, 2, Fault.MISSING),
        OffsetRun(0, 3, 3, Fault.DUPLICATE),
        OffsetRun(1, 4, 4, Fault.MISSING),
    ]
    assert str(found[0]) == "partition 0: offsets 1 to 2 not in the table"
    assert str(found[1]) == "partition 0: offset 3 more than once in the table"


def test_programs_get_checksums_of_sixteen_digits() -> None:
    found = as_json(verdict(EQUAL))
    assert found["equal"] is True
    assert found["partitions"][0]["topic"]["checksum"] == "f" * 16
    assert found["partitions"][0]["table"]["offset_checksum"] == f"{(1 << 70) % (1 << 64):016x}"
