"""What we read in a .proto text is what protoc reads in it, and descriptors go both ways."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from tests.unit.schemas.protobuf.protoc import compiled

from ottla.schemas.formats import parse_schema
from ottla.schemas.protobuf.descriptor_writer import descriptor_of, file_descriptor
from ottla.schemas.protobuf.model import parse_protobuf
from ottla.schemas.protobuf.type_table import TypeTable
from ottla.schemas.protobuf.well_known import TEXTS, well_known_file
from ottla.schemas.schema import Imported, InvalidSchemaError

PROTO3 = """
// An order.
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
import "google/protobuf/descriptor.proto";
option java_package = "com.shop"; option java_multiple_files = true; option optimize_for = SPEED;
extend google.protobuf.FieldOptions { Rule rule = 50000; repeated string tags = 50001; }
message Rule { string expr = 1; int32 level = 2; Rule inner = 3; sint64 low = 4; float part = 5; }
message Order {
  reserved 9, 11 to 13, 1000 to max; reserved "old", "older";
  int64 id = 1 [(rule).expr = "id > 0", (rule).inner.level = -3, deprecated = true];
  string message = 2 [json_name = "text", (tags) = "a\\n\\x41", (tags) = 'b'];
  optional int32 count = 3;
  repeated Line lines = 4;
  google.protobuf.Timestamp at = 5;
  State state = 6;
  oneof payment { string card = 7; Cash cash = 8; }
  repeated sint32 packed = 10 [packed = false];
  message Line { string item = 1; double price = 2; message Deep { bool yes = 1; } Deep deep = 3; }
  message Cash { fixed64 amount = 1; }
  enum State { option allow_alias = true; NEW = 0; OPEN = 0; DONE = 2 [deprecated = true]; reserved 5 to 7; reserved "X"; }
}
service Orders { rpc Watch (stream Order) returns (stream .shop.v1.Order) { option deprecated = true; } rpc Get(Order) returns (Order); }
"""
PROTO2 = """
package old;
message A {
  required string name = 1 [default = "x\\"y"];
  optional .old.A.Kind kind = 2 [default = B];
  optional double ratio = 3 [default = -1.5e3];
  repeated int32 many = 4 [packed = true];
  extensions 100 to 199, 300;
  enum Kind { A_ = 1; B = -2; }
  extend A { optional bool flag = 100; }
}
extend A { optional A other = 101; }
"""


@pytest.mark.parametrize("text", [PROTO3, PROTO2])
def test_a_text_means_what_protoc_says(text: str) -> None:
    ours = FileDescriptorProto.FromString(descriptor_of(parse_protobuf(text), "own.proto"))
    theirs = _normal(compiled(text))
    assert _normal(ours) == theirs
    assert ours.name == "own.proto"


def test_entries_of_maps_come_last_and_are_those_of_protoc() -> None:
    text = 'syntax = "proto3"; message A { map<string, B> by_name = 1; message B { map<int32, bytes> x_y2 = 1; } B b = 2; }'
    made = FileDescriptorProto.FromString(descriptor_of(parse_protobuf(text), "own.proto"))
    assert [each.name for each in made.message_type[0].nested_type] == ["B", "ByNameEntry"]
    assert _normal(made) == _normal(compiled(text))


@pytest.mark.parametrize("text", [PROTO3, PROTO2])
def test_a_descriptor_of_protoc_is_read_as_its_text(text: str) -> None:
    data = b64encode(compiled(text).SerializeToString()).decode()
    read, written = parse_schema("PROTOBUF", data), parse_schema("PROTOBUF", text)
    assert read.reading(written) == written.reading(read) == []
    # The kept text of a descriptor is a .proto text, which protoc reads again (but for the entries of maps).
    assert _normal(compiled(read.canonical())) == _normal(compiled(text))
    assert _normal(compiled(written.canonical())) == _normal(compiled(text))
    assert parse_schema("PROTOBUF", read.form("serialized")).canonical() == read.canonical()


def test_an_imported_type_is_found_and_keeps_its_name() -> None:
    common = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; enum Unit { EUR = 0; } }'
    text = 'syntax = "proto3"; package shop.v1; import "common.proto"; message A { Money m = 1; shop.Money.Unit u = 2; }'
    made = descriptor_of(parse_protobuf(text, [Imported("common.proto", common)]), "own.proto")
    assert _normal(FileDescriptorProto.FromString(made)) == _normal(compiled(text, common=common))


MODULES = [any_pb2, api_pb2, descriptor_pb2, struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.DESCRIPTOR.name))
def test_the_built_in_files_are_those_of_protobuf(module: Any) -> None:
    theirs = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    table = TypeTable()
    for name in (*theirs.dependency, theirs.name):
        table.add(name, well_known_file(name))
    ours = FileDescriptorProto.FromString(file_descriptor(well_known_file(theirs.name), table, theirs.name))
    known = {_named(each) for each in ours.message_type}
    assert known == {_named(each) for each in theirs.message_type}


def test_every_built_in_file_can_be_imported() -> None:
    for name in TEXTS:
        parse_protobuf(f'syntax = "proto3"; import "{name}"; message A {{}}')


@pytest.mark.parametrize(
    "data", [b"\xff" * 40, b"\x0a\xff\xff\xff\x7f", b"\x08\x01", b"\x22\x03\x0a\x7f\x00"]
)
def test_broken_descriptors_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(InvalidSchemaError):
        parse_protobuf(b64encode(data * 2).decode())


def _named(message: DescriptorProto) -> tuple[str, tuple[tuple[str, int, int, int], ...]]:
    return message.name, tuple((each.name, each.number, each.type, each.label) for each in message.field)


def _normal(file: FileDescriptorProto) -> FileDescriptorProto:
    """Without what has no meaning: the words proto2, JSON names that are the usual ones, the order of fields."""
    made = FileDescriptorProto()
    made.CopyFrom(file)
    made.ClearField("source_code_info")
    if made.syntax == "proto2":
        made.ClearField("syntax")
    waiting = list(made.message_type)
    while waiting:
        message = waiting.pop()
        waiting += message.nested_type
        ordered = sorted(message.field, key=lambda each: each.number)
        copies = [type(each).FromString(each.SerializeToString()) for each in ordered]
        del message.field[:]
        message.field.extend(copies)
        nested = sorted(message.nested_type, key=lambda each: each.name)
        copied = [DescriptorProto.FromString(each.SerializeToString()) for each in nested]
        del message.nested_type[:]
        message.nested_type.extend(copied)
        waiting = [each for each in waiting if each not in nested] + list(message.nested_type)
        for field in message.field:
            _drop_usual_json_name(field)
        for field in message.extension:
            _drop_usual_json_name(field)
    for field in made.extension:
        _drop_usual_json_name(field)
    return made


def _drop_usual_json_name(field: descriptor_pb2.FieldDescriptorProto) -> None:
    parts = field.name.split("_")
    if field.json_name == parts[0] + "".join(part[:1].upper() + part[1:] for part in parts[1:]):
        field.ClearField("json_name")
