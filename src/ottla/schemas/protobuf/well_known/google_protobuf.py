"""The files of google/protobuf but descriptor.proto."""

from __future__ import annotations

from typing import Final

TEXTS: Final = {
    "google/protobuf/any.proto": """syntax = "proto3";
package google.protobuf;

message Any {
  string type_url = 1;
  bytes value = 2;
}
""",
    "google/protobuf/api.proto": """syntax = "proto3";
package google.protobuf;

import "google/protobuf/source_context.proto";
import "google/protobuf/type.proto";

message Api {
  string name = 1;
  repeated .google.protobuf.Method methods = 2;
  repeated .google.protobuf.Option options = 3;
  string version = 4;
  .google.protobuf.SourceContext source_context = 5;
  repeated .google.protobuf.Mixin mixins = 6;
  .google.protobuf.Syntax syntax = 7;
  string edition = 8;
}
message Method {
  string name = 1;
  string request_type_url = 2;
  bool request_streaming = 3;
  string response_type_url = 4;
  bool response_streaming = 5;
  repeated .google.protobuf.Option options = 6;
  .google.protobuf.Syntax syntax = 7;
  string edition = 8;
}
message Mixin {
  string name = 1;
  string root = 2;
}
""",
    "google/protobuf/duration.proto": """syntax = "proto3";
package google.protobuf;

message Duration {
  int64 seconds = 1;
  int32 nanos = 2;
}
""",
    "google/protobuf/empty.proto": """syntax = "proto3";
package google.protobuf;

message Empty {}
""",
    "google/protobuf/field_mask.proto": """syntax = "proto3";
package google.protobuf;

message FieldMask {
  repeated string paths = 1;
}
""",
    "google/protobuf/source_context.proto": """syntax = "proto3";
package google.protobuf;

message SourceContext {
  string file_name = 1;
}
""",
    "google/protobuf/struct.proto": """syntax = "proto3";
package google.protobuf;

message Struct {
  repeated .google.protobuf.Struct.FieldsEntry fields = 1;

  message FieldsEntry {
    option map_entry = true;

    string key = 1;
    .google.protobuf.Value value = 2;
  }
}
message Value {
  oneof kind {
    .google.protobuf.NullValue null_value = 1;
    double number_value = 2;
    string string_value = 3;
    bool bool_value = 4;
    .google.protobuf.Struct struct_value = 5;
    .google.protobuf.ListValue list_value = 6;
  }
}
message ListValue {
  repeated .google.protobuf.Value values = 1;
}
enum NullValue {
  NULL_VALUE = 0;
}
""",
    "google/protobuf/timestamp.proto": """syntax = "proto3";
package google.protobuf;

message Timestamp {
  int64 seconds = 1;
  int32 nanos = 2;
}
""",
    "google/protobuf/type.proto": """syntax = "proto3";
package google.protobuf;

import "google/protobuf/any.proto";
import "google/protobuf/source_context.proto";

message Type {
  string name = 1;
  repeated .google.protobuf.Field fields = 2;
  repeated string oneofs = 3;
  repeated .google.protobuf.Option options = 4;
  .google.protobuf.SourceContext source_context = 5;
  .google.protobuf.Syntax syntax = 6;
  string edition = 7;
}
message Field {
  .google.protobuf.Field.Kind kind = 1;
  .google.protobuf.Field.Cardinality cardinality = 2;
  int32 number = 3;
  string name = 4;
  string type_url = 6;
  int32 oneof_index = 7;
  bool packed = 8;
  repeated .google.protobuf.Option options = 9;
  string json_name = 10;
  string default_value = 11;

  enum Kind {
    TYPE_UNKNOWN = 0;
    TYPE_DOUBLE = 1;
    TYPE_FLOAT = 2;
    TYPE_INT64 = 3;
    TYPE_UINT64 = 4;
    TYPE_INT32 = 5;
    TYPE_FIXED64 = 6;
    TYPE_FIXED32 = 7;
    TYPE_BOOL = 8;
    TYPE_STRING = 9;
    TYPE_GROUP = 10;
    TYPE_MESSAGE = 11;
    TYPE_BYTES = 12;
    TYPE_UINT32 = 13;
    TYPE_ENUM = 14;
    TYPE_SFIXED32 = 15;
    TYPE_SFIXED64 = 16;
    TYPE_SINT32 = 17;
    TYPE_SINT64 = 18;
  }
  enum Cardinality {
    CARDINALITY_UNKNOWN = 0;
    CARDINALITY_OPTIONAL = 1;
    CARDINALITY_REQUIRED = 2;
    CARDINALITY_REPEATED = 3;
  }
}
message Enum {
  string name = 1;
  repeated .google.protobuf.EnumValue enumvalue = 2;
  repeated .google.protobuf.Option options = 3;
  .google.protobuf.SourceContext source_context = 4;
  .google.protobuf.Syntax syntax = 5;
  string edition = 6;
}
message EnumValue {
  string name = 1;
  int32 number = 2;
  repeated .google.protobuf.Option options = 3;
}
message Option {
  string name = 1;
  .google.protobuf.Any value = 2;
}
enum Syntax {
  SYNTAX_PROTO2 = 0;
  SYNTAX_PROTO3 = 1;
  SYNTAX_EDITIONS = 2;
}
""",
    "google/protobuf/wrappers.proto": """syntax = "proto3";
package google.protobuf;

message DoubleValue {
  double value = 1;
}
message FloatValue {
  float value = 1;
}
message Int64Value {
  int64 value = 1;
}
message UInt64Value {
  uint64 value = 1;
}
message Int32Value {
  int32 value = 1;
}
message UInt32Value {
  uint32 value = 1;
}
message BoolValue {
  bool value = 1;
}
message StringValue {
  string value = 1;
}
message BytesValue {
  bytes value = 1;
}
""",
}
