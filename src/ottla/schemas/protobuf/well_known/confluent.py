"""The files that Confluent's serializers bring."""

from __future__ import annotations

from typing import Final

TEXTS: Final = {
    "confluent/meta.proto": """syntax = "proto3";
package confluent;

import "google/protobuf/descriptor.proto";

message Meta {
  string doc = 1;
  repeated .confluent.Meta.ParamsEntry params = 2;
  repeated string tags = 3;
  repeated .confluent.Rule rules = 4;

  message ParamsEntry {
    option map_entry = true;

    string key = 1;
    string value = 2;
  }
}
message Rule {
  string name = 1;
  string doc = 2;
  string expr = 3;
  string sql = 4;
}

extend .google.protobuf.FileOptions {
  .confluent.Meta file_meta = 1088;
}
extend .google.protobuf.MessageOptions {
  .confluent.Meta message_meta = 1088;
}
extend .google.protobuf.FieldOptions {
  .confluent.Meta field_meta = 1088;
}
extend .google.protobuf.EnumOptions {
  .confluent.Meta enum_meta = 1088;
}
extend .google.protobuf.EnumValueOptions {
  .confluent.Meta enum_value_meta = 1088;
}
""",
    "confluent/type/decimal.proto": """syntax = "proto3";
package confluent.type;

message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
""",
    "confluent/type/variant.proto": """syntax = "proto3";
package confluent.type;

message Variant {
  bytes metadata = 1;
  bytes value = 2;
}
""",
}
