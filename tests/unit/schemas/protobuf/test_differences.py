"""Who can read whose data: each rule of Confluent's registry, in both directions."""

from __future__ import annotations

import pytest

from ottla.schemas.formats import ParsedSchema, parse_schema
from ottla.schemas.levels import Level, incompatibilities
from ottla.schemas.schema import Imported


def proto3(body: str) -> ParsedSchema:
    return parse_schema("PROTOBUF", f'syntax = "proto3"; {body}')


def kinds(old: ParsedSchema, new: ParsedSchema) -> list[str]:
    return [f"{each.kind} {each.path}" for each in new.reading(old)]


@pytest.mark.parametrize(
    ("old", "new", "forth", "back"),
    [
        ("int32 a = 1;", "int32 a = 1; string b = 2;", [], []),
        ("int32 a = 1;", "int64 other = 1;", [], []),
        ("int32 a = 1;", "E a = 1; enum E { X = 0; }", [], []),
        ("string a = 1;", "repeated bytes a = 1;", [], []),
        (
            "int32 a = 1;",
            "sint32 a = 1;",
            ["FIELD_SCALAR_KIND_CHANGED #/A/1"],
            ["FIELD_SCALAR_KIND_CHANGED #/A/1"],
        ),
        ("int32 a = 1;", "A a = 1;", ["FIELD_KIND_CHANGED #/A/1"], ["FIELD_KIND_CHANGED #/A/1"]),
        (
            "optional int32 a = 1;",
            "repeated int32 a = 1;",
            ["FIELD_NUMERIC_LABEL_CHANGED #/A/1"],
            ["FIELD_NUMERIC_LABEL_CHANGED #/A/1"],
        ),
        ("int32 a = 1;", "", [], []),
        ("message B {} int32 a = 1;", "int32 a = 1;", ["MESSAGE_REMOVED #/A/B"], []),
        (
            "int32 a = 1; int32 b = 2;",
            "oneof o { int32 a = 1; int32 b = 2; }",
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF #/A/o"],
            [],
        ),
        (
            "oneof o { int32 a = 1; } int32 b = 2;",
            "oneof o { int32 a = 1; int32 b = 2; }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF #/A/o"],
            [],
        ),
        ("int32 a = 1;", "oneof o { int32 a = 1; }", [], []),
        (
            "oneof o { int32 a = 1; int32 b = 2; }",
            "oneof o { int32 a = 1; }",
            ["ONEOF_FIELD_REMOVED #/A/o/2"],
            [],
        ),
        ("oneof o { int32 a = 1; }", "int32 z = 9;", [], []),
        (
            "map<string, int32> m = 1;",
            "map<string, string> m = 1;",
            ["FIELD_SCALAR_KIND_CHANGED #/A/1"],
            ["FIELD_SCALAR_KIND_CHANGED #/A/1"],
        ),
        ("enum E { X = 0; Y = 1; }", "enum E { Z = 0; }", [], []),
    ],
)
def test_a_change_of_a_message(old: str, new: str, forth: list[str], back: list[str]) -> None:
    before, after = proto3(f"message A {{ {old} }}"), proto3(f"message A {{ {new} }}")
    assert kinds(before, after) == forth
    assert kinds(after, before) == back


def test_the_package_counts() -> None:
    assert kinds(proto3("package a; message A {}"), proto3("package b; message A {}")) == [
        "PACKAGE_CHANGED #/"
    ]


def test_required_fields_may_neither_come_nor_go() -> None:
    without, having = (
        parse_schema("PROTOBUF", f"message A {{ {each} }}") for each in ("", "required int32 a = 1;")
    )
    assert kinds(without, having) == ["REQUIRED_FIELD_ADDED #/A/1"]
    assert kinds(having, without) == ["REQUIRED_FIELD_REMOVED #/A/1"]


def test_what_is_imported_is_compared_too() -> None:
    text = 'syntax = "proto3"; import "b.proto"; message A { p.B b = 1; }'
    old, new = (
        parse_schema(
            "PROTOBUF", text, [Imported("b.proto", f'syntax = "proto3"; package p; message B {{ {each} }}')]
        )
        for each in ("int32 x = 1; B b = 2;", "string x = 1; B b = 2;")
    )
    assert kinds(old, new) == ["FIELD_SCALAR_KIND_CHANGED #/B/1", "FIELD_NAMED_TYPE_CHANGED #/A/1"]


def test_a_map_is_the_same_however_it_is_written() -> None:
    text = "message A { map<string, int32> m = 1; message B { } B b = 2; }"
    plain = proto3(text)
    entries = parse_schema("PROTOBUF", plain.form("serialized"))
    assert "MEntry" in entries.canonical()
    assert kinds(plain, entries) == kinds(entries, plain) == []


@pytest.mark.parametrize(
    ("level", "adding", "removing"),
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
def test_the_seven_levels(level: Level, adding: bool, removing: bool) -> None:
    """A message more is fine for new readers; old readers lack it."""
    one, two = proto3("message A {}"), proto3("message A {} message B {}")
    assert (incompatibilities(level, new=two, old=one) == []) is adding
    assert (incompatibilities(level, new=one, old=two) == []) is removing
