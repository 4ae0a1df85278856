"""The seven compatibility levels: which versions are compared, in which direction."""

from __future__ import annotations

import pytest

from ottla.schemas.formats import parse_schema
from ottla.schemas.levels import Level, incompatibilities
from ottla.schemas.schema import InvalidSchemaError

INT, LONG = parse_schema("AVRO", '"int"'), parse_schema("AVRO", '"long"')


@pytest.mark.parametrize(
    ("level", "widening", "narrowing"),
    [
        (Level.NONE, True, True),
        (Level.BACKWARD, True, False),
        (Level.BACKWARD_TRANSITIVE, True, False),
        (Level.FORWARD, False, True),
        (Level.FORWARD_TRANSITIVE, False, True),
        (Level.FULL, False, False),
        (Level.FULL_TRANSITIVE, False, False),
    ],
)
def test_a_level_says_who_must_be_able_to_read(level: Level, widening: bool, narrowing: bool) -> None:
    assert (incompatibilities(level, new=LONG, old=INT) == []) is widening
    assert (incompatibilities(level, new=INT, old=LONG) == []) is narrowing


def test_transitive_levels_compare_all_versions_and_the_others_the_latest() -> None:
    assert Level.NONE.compared([1, 2, 3]) == []
    assert Level.FULL.compared([1, 2, 3]) == [3]
    assert Level.FULL_TRANSITIVE.compared([1, 2, 3]) == [3, 2, 1]
    assert Level.BACKWARD.compared([]) == []


def test_an_unknown_type_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidSchemaError, match="'XML' is no type of schema: schemas can be AVRO"):
        parse_schema("XML", "<a/>")
