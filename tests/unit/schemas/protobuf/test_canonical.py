"""The text that is kept is Confluent's: by it a registry knows a schema again."""

from __future__ import annotations

from ottla.schemas.formats import parse_schema

TEXT = """
syntax = "proto3";
package shop; // a comment
import "google/protobuf/timestamp.proto"; import "google/protobuf/any.proto";
option java_package = "com.shop";
message Order {
  enum State { NEW = 0; DONE = 1; }
  map<string, Line> lines = 3;
  State state = 2 [deprecated = true, json_name = "s"];
  message Line { string item = 1; }
  google.protobuf.Timestamp at = 1;
  oneof pay { string card = 5; string cash = 4; }
  reserved 9, 7 to 8;
}
"""
KEPT = """\
syntax = "proto3";
package shop;

import "google/protobuf/timestamp.proto";
import "google/protobuf/any.proto";

option java_package = "com.shop";

message Order {
  reserved 9, 7 to 8;

  map<string, Line> lines = 3;
  State state = 2 [
    deprecated = true,
    json_name = "s"
  ];
  google.protobuf.Timestamp at = 1;

  oneof pay {
    string card = 5;
    string cash = 4;
  }

  message Line {
    string item = 1;
  }
  enum State {
    NEW = 0;
    DONE = 1;
  }
}
"""
NORMAL = """\
syntax = "proto3";
package shop;

import "google/protobuf/any.proto";
import "google/protobuf/timestamp.proto";

option java_package = "com.shop";

message Order {
  reserved 7 to 8;
  reserved 9;

  .google.protobuf.Timestamp at = 1;
  .shop.Order.State state = 2 [
    deprecated = true,
    json_name = "s"
  ];
  map<string, .shop.Order.Line> lines = 3;

  oneof pay {
    string cash = 4;
    string card = 5;
  }

  message Line {
    string item = 1;
  }
  enum State {
    NEW = 0;
    DONE = 1;
  }
}
"""
OPTIONS = """
syntax = "proto3";
import "confluent/meta.proto";
message A {
  option (confluent.message_meta).doc = "it's";
  option (confluent.message_meta) = { tags: "b", tags: ["c"] params: [{ key: "k", value: "v" }] };
  int32 a = 1 [(confluent.field_meta) = { doc: "x" }];
}
"""


def test_the_kept_text() -> None:
    parsed = parse_schema("PROTOBUF", TEXT)
    assert parsed.canonical() == KEPT
    assert parse_schema("PROTOBUF", KEPT).canonical() == KEPT


def test_the_normal_text() -> None:
    parsed = parse_schema("PROTOBUF", TEXT)
    assert parsed.canonical(is_normal=True) == NORMAL
    assert parse_schema("PROTOBUF", parsed.form("serialized")).canonical(is_normal=True) == NORMAL


def test_normal_options_are_merged_and_sorted() -> None:
    normal = parse_schema("PROTOBUF", OPTIONS).canonical(is_normal=True)
    wanted = """\
  option (confluent.message_meta) = {
    doc: "it\\'s",
    params: {
      key: "k",
      value: "v"
    },
    tags: [
      "b",
      "c"
    ]
  };
"""
    assert wanted in normal


def test_extensions_can_be_left_out() -> None:
    text = """
    import "google/protobuf/descriptor.proto";
    extend google.protobuf.FileOptions { optional int32 x = 50000; }
    option (x) = 1;
    message A { }
    """
    wanted = '\nimport "google/protobuf/descriptor.proto";\n\nmessage A {}\n'
    assert parse_schema("PROTOBUF", text).form("ignore_extensions") == wanted
