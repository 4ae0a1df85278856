"""Two codecs that others wrote, behind one small interface: what their messages mean in our classes.

kio and kafka-python list the fields of a version in Kafka's order, as we do, so fields are matched by
position. They dress some values up (time spans, points in time, sets of bits, None for the zero uuid); `ours`
undresses them.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import pkgutil
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Protocol

import kio.serial
from tests.conformance.declared import is_our_own
from tests.conformance.kafka_schema import snake_case

from ottla.protocol.declaration import ZERO_UUID, Wire
from ottla.protocol.layout import Field, layout

with warnings.catch_warnings():
    # kafka-python 3.0 reads its schemas through a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.data_container import DataContainer


class ForeignCodec(Protocol):
    """Reads and writes messages as another library understands them."""

    def has(self, cls: type[Any], version: int) -> bool: ...

    def decode(self, cls: type[Any], version: int, data: bytes) -> Any: ...

    def encode(self, cls: type[Any], version: int, foreign: Any) -> bytes: ...


class Kio:
    """kio (a package on PyPI): one frozen dataclass per message and version, codec in Rust."""

    def has(self, cls: type[Any], version: int) -> bool:
        return self._class(cls.__name__, version) is not None

    def decode(self, cls: type[Any], version: int, data: bytes) -> Any:
        entity, size = kio.serial.entity_reader(self._class(cls.__name__, version))(data, 0)
        assert size == len(data)
        return entity

    def encode(self, cls: type[Any], version: int, foreign: Any) -> bytes:
        out = io.BytesIO()
        kio.serial.entity_writer(type(foreign))(out, foreign)
        return out.getvalue()

    @staticmethod
    @cache
    def _class(name: str, version: int) -> Any:
        family = snake_case(name.removesuffix("Request").removesuffix("Response"))
        kind = "request" if name.endswith("Request") else "response" if name.endswith("Response") else "data"
        try:
            module = importlib.import_module(f"kio.schema.{family}.v{version}.{kind}")
        except ModuleNotFoundError:
            return None
        return getattr(module, name)


class KafkaPython:
    """kafka-python (a package on PyPI): classes made from Kafka's JSON when it is imported."""

    def has(self, cls: type[Any], version: int) -> bool:
        theirs = self._classes().get(cls.__name__)
        return theirs is not None and theirs.min_version <= version <= theirs.max_version

    def decode(self, cls: type[Any], version: int, data: bytes) -> Any:
        return self._classes()[cls.__name__].decode(data, version=version)

    def encode(self, cls: type[Any], version: int, foreign: Any) -> bytes:
        foreign._header = None  # its decoder leaves this unset, and some of its encoders look at it
        return bytes(foreign.encode(version=version))

    @staticmethod
    @cache
    def _classes() -> dict[str, Any]:
        found = {}
        for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
            if ".old" in module.name or "generate_stubs" in module.name:
                continue
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and issubclass(value, ApiMessage) and value is not ApiMessage:
                    found[value.__name__] = value
        return found


def ours(cls: type[Any], version: int, foreign: Any) -> Any:
    """The message of our own that says what a foreign one says."""
    fields = layout(cls, version)
    present = {f.name: f for f in (*fields.plain, *fields.tagged)}
    in_order = [present[name] for name in cls.__slots__ if name in present and not is_our_own(present[name])]
    values = zip(in_order, _values(foreign, version), strict=True)
    return cls(**{field.name: _our_value(field, version, value) for field, value in values})


def _values(foreign: Any, version: int) -> Iterator[Any]:
    if isinstance(foreign, DataContainer):
        return (getattr(foreign, f.name) for f in foreign._struct._fields if f.for_version_q(version))
    return (getattr(foreign, f.name) for f in dataclasses.fields(foreign))


def _our_value(field: Field, version: int, value: Any) -> Any:
    if field.is_array:
        if value is None:
            return None
        return [_our_element(field, version, element) for element in value]
    if value is None and field.is_nullable(version):
        return None
    return _our_element(field, version, value)


def _our_element(field: Field, version: int, value: Any) -> Any:
    if isinstance(field.kind, Wire):
        return _our_scalar(field.kind, value)
    return field.kind() if value is None else ours(field.kind, version, value)


def _our_scalar(wire: Wire, value: Any) -> Any:
    if value is None:  # kio: the zero uuid, no point in time; kafka-python: the zero uuid, no operations
        return {"uuid": ZERO_UUID, "int64": -1, "int32": -(2**31)}[wire.name]
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, set):  # kafka-python: the numbers of the bits that are set
        bits = sum(1 << bit for bit in value)
        return bits - (1 << 32) if bits >= 1 << 31 else bits
    return value
