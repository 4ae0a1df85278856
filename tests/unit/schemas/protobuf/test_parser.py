"""What is wrong with a .proto text is said with its place, and nothing takes for ever."""

from __future__ import annotations

from time import process_time

import pytest

from ottla.schemas.formats import parse_schema
from ottla.schemas.protobuf.model import parse_protobuf
from ottla.schemas.schema import Imported, InvalidSchemaError

P3 = 'syntax = "proto3"; '


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the schema is empty"),
        ("message A {", "line 1, column 12: a } is missing"),
        ("message A {\n  int32 a = x;\n}", "line 2, column 13: expected a whole number, found 'x'"),
        ("message A { int32 a = 1 }", "expected ';'"),
        ('syntax = "proto4";', "proto2 or proto3, not 'proto4'"),
        ('edition = "2023"; message A {}', "editions are not served"),
        ("message A { optional group G = 1 { } }", "groups are not served"),
        ('message A { string s = 1 [default = "x] }', "cannot be here"),
        (P3 + "message A { B b = 1; }", "A.b: there is no type 'B'"),
        (P3 + 'import "b.proto"; message A { }', "the import 'b.proto' leads nowhere"),
        (P3 + "message A { int32 a = 1; int32 b = 1; }", "the number 1 is there twice"),
        (P3 + "message A { int32 a = 1; string a = 2; }", "the name a is there twice"),
        (P3 + "message A { int32 a = 0; }", "0 cannot be the number of a field"),
        (P3 + "message A { int32 a = 19000; }", "19000 cannot be the number"),
        (P3 + "message A { reserved 2 to 4; int32 a = 3; }", "is reserved"),
        (P3 + "message A { required int32 a = 3; }", "no required fields in proto3"),
        (P3 + "enum E { A = 1; }", "the first constant must be 0"),
        (P3 + "enum E { A = 0; B = 0; }", "the number 0 is there twice"),
        (P3 + "message A { map<double, int32> m = 1; }", "cannot be the type of a map's keys"),
        (P3 + "message A {} message A {}", "the type A is there twice"),
        (P3 + "service S { rpc Get (A) returns (A); }", "there is no message 'A'"),
        ("message A { int32 a = 1; }", "must be optional, required or repeated"),
        ("message A { option (x) = { a: { b: [1, } };", "expected the value of an option"),
        (P3 + "message A { oneof o { } }", "a oneof must have fields"),
        ("QUJDRA==", "the data ends in the middle of a field"),
    ],
)
def test_a_refusal_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        parse_protobuf(text)
    assert words in str(caught.value)


def test_what_is_wrong_in_a_reference_names_the_reference() -> None:
    with pytest.raises(InvalidSchemaError, match=r"the referenced schema 'b.proto': line 1"):
        parse_protobuf(P3 + 'import "b.proto";', [Imported("b.proto", "message {")])


@pytest.mark.parametrize(
    "text",
    [
        "message A {" * 5_000,
        P3 + "".join(f"message M{each} {{ M{(each + 1) % 9_000} next = 1; }}\n" for each in range(9_000)),
        P3 + "message A { option (x) = " + "{ a: " * 3_000 + "1",
        "/*" * 400_000,
        '"' + "\\" * 400_001,
        P3 + "message A {" + "".join(f"int32 a{each} = {each + 1};" for each in range(15_000)) + "}",
    ],
    ids=["deep", "cyclic", "deep option", "comment", "escapes", "many fields"],
)
def test_huge_and_hostile_texts_are_read_or_refused_in_seconds(text: str) -> None:
    started = process_time()
    try:
        parsed = parse_schema("PROTOBUF", text)
        assert parsed.reading(parsed) == []
        assert parse_schema("PROTOBUF", parsed.canonical()).canonical() == parsed.canonical()
    except InvalidSchemaError:
        pass
    assert process_time() - started < 10
