"""Which files are merged: small neighbours of one part of the table."""

from __future__ import annotations

from ottla.lake.plan.small_files import SizedFile, groups_to_merge


def file(name: str, size: int, part: int | None = 1, partition: int = 0, first: int = 0) -> SizedFile:
    return SizedFile(name, part, partition, first, size)


def names(groups: list[list[SizedFile]]) -> list[list[str]]:
    return [[each.path for each in group] for group in groups]


def test_small_neighbours_become_files_of_the_wanted_size() -> None:
    files = [file(f"f{at}", 40, first=at) for at in range(5)]
    assert names(groups_to_merge(files, 100)) == [["f0", "f1"], ["f2", "f3"]]


def test_a_large_file_stays_and_parts_are_not_mixed() -> None:
    files = [file("a", 10, first=0), file("big", 70, first=1), file("b", 10, first=2), file("c", 10, part=2)]
    assert groups_to_merge(files, 100) == []
    assert names(groups_to_merge([*files, file("d", 5, part=2, first=1)], 100)) == [["c", "d"]]
