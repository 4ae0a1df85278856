"""The columns of a Protobuf message: types of Arrow, and the values of a message's fields.

A field that is not set and has presence is null; another one has its default. Enumerations are their names. A
message that contains itself is kept as JSON text; `google.protobuf.Timestamp` is a timestamp.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToJson

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_TYPES: Final = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}


def message_type(descriptor: Any, inside: frozenset[str] = frozenset()) -> pa.DataType:
    """The struct of a message; text for one that contains itself."""
    if descriptor.full_name == _TIMESTAMP:
        return pa.timestamp("us", tz="UTC")
    if descriptor.full_name in inside:
        return pa.string()
    deeper = inside | {descriptor.full_name}
    return pa.struct([pa.field(each.name, _field_type(each, deeper)) for each in descriptor.fields])


def _field_type(field: Any, inside: frozenset[str]) -> pa.DataType:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return pa.map_(_single_type(key, inside), _single_type(value, inside))
    single = _single_type(field, inside)
    return pa.list_(single) if field.is_repeated else single


def _single_type(field: Any, inside: frozenset[str]) -> pa.DataType:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return message_type(field.message_type, inside)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return pa.binary()
    return _TYPES.get(field.cpp_type, pa.string())


def message_value(message: Any, inside: frozenset[str] = frozenset()) -> Any:
    """The value of a message in its `message_type`."""
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == _TIMESTAMP:
        return message.seconds * 1_000_000 + message.nanos // 1000
    if descriptor.full_name in inside:
        return MessageToJson(message, preserving_proto_field_name=True, indent=None)
    deeper = inside | {descriptor.full_name}
    return {each.name: _field_value(message, each, deeper) for each in descriptor.fields}


def _field_value(message: Any, field: Any, inside: frozenset[str]) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        of_map = field.message_type.fields_by_name["value"]
        return [(key, _single_value(value[key], of_map, inside)) for key in value]
    if field.is_repeated:
        return [_single_value(each, field, inside) for each in value]
    return _single_value(value, field, inside)


def _single_value(value: Any, field: Any, inside: frozenset[str]) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return message_value(value, inside)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value


def _is_map(field: Any) -> bool:
    kind = field.message_type
    return bool(kind is not None and kind.GetOptions().map_entry)
