"""The layout of a declaration in each version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import pytest

from ottla.protocol.codec import (
    Bytes,
    Int8,
    Int32,
    String,
    Uuid,
    between,
    declaration_of,
    first_flexible_version,
    first_nullable_version,
    first_version,
    message,
    nullable_since,
    since,
    struct,
    tag,
    until,
)
from ottla.protocol.declaration import ZERO_UUID, Versions, Wire
from ottla.protocol.layout import described, layout, smallest_size_bytes
from ottla.protocol.messages.offsets import OffsetDeleteRequest


@struct
class Part:
    number: Int32 = 0
    name: String = ""


@message(key=99, versions=(0, 9), flexible=5)
class Whole:
    always: Int8 = 0
    later: Annotated[Int32, since(2)] = 7
    earlier: Annotated[Uuid, until(3)] = ZERO_UUID
    middle: Annotated[Bytes | None, between(2, 4)] = None
    nullable_later: Annotated[String | None, nullable_since(3)] = ""
    second_tag: Annotated[list[Part], tag(1, since=6)] = field(default_factory=list)
    first_tag: Annotated[Part, tag(0, since=5), until(8)] = field(default_factory=Part)
    parts: list[Part] | None = None


def names(version: int) -> list[str]:
    return [f.name for f in layout(Whole, version).plain]


def test_a_version_has_the_fields_whose_marks_contain_it() -> None:
    assert names(0) == ["always", "earlier", "nullable_later", "parts"]
    assert names(2) == ["always", "later", "earlier", "middle", "nullable_later", "parts"]
    assert names(5) == ["always", "later", "nullable_later", "parts"]


def test_tagged_fields_come_in_the_order_of_their_numbers() -> None:
    assert [f.name for f in layout(Whole, 6).tagged] == ["first_tag", "second_tag"]
    assert [f.name for f in layout(Whole, 5).tagged] == ["first_tag"]
    assert [f.name for f in layout(Whole, 9).tagged] == ["second_tag"]


def test_what_a_version_lacks_is_absent() -> None:
    assert [f.name for f in layout(Whole, 9).absent] == ["earlier", "middle", "first_tag"]


def test_a_field_is_nullable_if_its_type_says_so_and_its_mark_allows_it() -> None:
    fields = {f.name: f for f in described(Whole)}
    assert not fields["nullable_later"].is_nullable(2)
    assert fields["nullable_later"].is_nullable(3)
    assert fields["parts"].is_nullable(0)
    assert not fields["always"].is_nullable(9)


def test_a_declaration_says_which_version_introduced_a_field() -> None:
    introduced = {f.name: first_version(Whole, f.name) for f in described(Whole)}
    assert introduced == {
        "always": 0,
        "later": 2,
        "earlier": 0,
        "middle": 2,
        "nullable_later": 0,
        "second_tag": 6,
        "first_tag": 5,
        "parts": 0,
    }
    assert first_nullable_version(Whole, "nullable_later") == 3
    assert first_flexible_version(Whole) == 5


def test_a_version_of_something_undeclared_is_refused() -> None:
    with pytest.raises(TypeError, match="Whole declares no field latter"):
        first_version(Whole, "latter")
    with pytest.raises(TypeError, match=r"Whole\.always is never null"):
        first_nullable_version(Whole, "always")
    with pytest.raises(TypeError, match="OffsetDeleteRequest has no flexible version"):
        first_flexible_version(OffsetDeleteRequest)


def test_kinds_are_wire_types_or_structs() -> None:
    fields = {f.name: f for f in described(Whole)}
    assert fields["always"].kind == Wire("int8", "b", 1)
    assert (fields["middle"].kind, fields["middle"].is_array) == (Wire("bytes"), False)
    assert (fields["parts"].kind, fields["parts"].is_array) == (Part, True)
    assert fields["middle"].versions == Versions(2, 4)


def test_the_smallest_size_of_a_struct_is_that_of_its_smallest_values() -> None:
    assert smallest_size_bytes(Part, 0, flexible=False) == 4 + 2
    assert smallest_size_bytes(Part, 0, flexible=True) == 4 + 1 + 1
    assert smallest_size_bytes(Whole, 0, flexible=False) == 1 + 16 + 2 + 4


def test_a_field_of_an_unknown_type_is_refused() -> None:
    @struct
    class Odd:
        value: float = 0.0

    with pytest.raises(TypeError, match=r"Odd\.value"):
        described(Odd)


def test_a_field_without_default_is_refused() -> None:
    @struct
    class Bare:
        value: Int8

    with pytest.raises(TypeError, match=r"Bare\.value has no default"):
        described(Bare)


def test_only_messages_and_records_have_a_declaration() -> None:
    @dataclass
    class Plain:
        pass

    assert declaration_of(Whole).versions == (0, 9)
    for cls in (Part, Plain):
        with pytest.raises(TypeError):
            declaration_of(cls)


def test_instances_are_compared_by_value_and_shown_by_field() -> None:
    assert Part(1, "a") == Part(1, "a")
    assert Part(1, "a") != Part(2, "a")
    other: object = Whole()
    assert Part() != other
    assert repr(Part(1, "a")) == "Part(number=1, name='a')"
    with pytest.raises(TypeError):
        hash(Part())
    with pytest.raises(AttributeError):
        Part().nothing = 1  # type: ignore[attr-defined]
