"""The classes of the messages of `ottla.v1`, made from the .proto text when the room is imported.

The text is read by the parser of the schema registry, so no generated file has to agree with it, and any version of
the package protobuf will do. The pool also has the services of health and reflection: clients ask about them, too.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from ottla.schemas.protobuf.descriptor_writer import descriptor_of
from ottla.schemas.protobuf.model import parse_protobuf

FILE: Final = "ottla/v1/gateway.proto"
PACKAGE: Final = "ottla.v1"
TEXT: Final = files("ottla.gateway.grpc").joinpath("proto", FILE).read_text(encoding="utf-8")


def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    pool.AddSerializedFile(descriptor_of(parse_protobuf(TEXT, ()), FILE))
    for known in (health_pb2, reflection_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    return pool


POOL: Final = _pool()


def message(name: str) -> Any:
    """The class of a message, such as `Record`."""
    return GetMessageClass(POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def service(name: str) -> Any:
    """The descriptor of a service, such as `ProducerService`."""
    return POOL.FindServiceByName(f"{PACKAGE}.{name}")


def class_of(descriptor: Any) -> Any:
    """The class of the message that a descriptor describes."""
    return GetMessageClass(descriptor)
