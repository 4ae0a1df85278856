"""OpenTelemetry's MetricsData, read from its Protobuf form: what clients push.

The reader knows the few messages around a number, and passes over everything else. It is a generator that yields
after every field or so: a payload may have a hundred thousand of them, and the event loop has other work. Everything
in a payload is a client's choice, so everything has a limit.
"""

from collections.abc import Iterator
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

# A client of librdkafka or Java pushes some hundred numbers; the rest of a push that has more is counted only.
MOST_POINTS: Final = 1000
_MOST_FIELDS: Final = 100_000
_MOST_ATTRIBUTES: Final = 16
_MOST_ATTRIBUTE_FIELDS: Final = 8
_LONGEST_TEXT: Final = 200
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE: Final = Struct("<d")
_SIGNED: Final = Struct("<q")
_LONGEST_VARINT: Final = 10

Attributes = tuple[tuple[str, str], ...]
_Value = int | memoryview

# The places of a metric's data, by the field of Metric: the kind, the field of a point's attributes.
_KINDS: Final = {
    5: ("gauge", 7),
    7: ("sum", 7),
    9: ("histogram", 9),
    10: ("histogram", 1),
    11: ("summary", 7),
}


class MalformedMetricsError(ValueError):
    """The bytes are no MetricsData."""


class Point(NamedTuple):
    """One number. Of a histogram, and of a summary, `value` is the sum and `observations` the number of values."""

    name: str
    kind: str
    unit: str
    attributes: Attributes
    value: float
    observations: int | None = None


class MetricsReader:
    """Reads one payload. `points` has the numbers, `hidden` counts those beyond the limit."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.hidden = 0
        self._fields_left = _MOST_FIELDS

    def read(self, data: bytes) -> Iterator[None]:
        """Read the payload, step by step. Raises MalformedMetricsError."""
        try:
            yield from self._metrics_data(memoryview(data))
        except (IndexError, ValueError) as error:
            raise MalformedMetricsError(f"the metrics cannot be read: {error}") from None

    def _metrics_data(self, view: memoryview) -> Iterator[None]:
        for number, resource in self._fields(view):
            yield
            for inner, scope in self._fields(_message(resource)) if number == 1 else ():
                yield
                for place, metric in self._fields(_message(scope)) if inner == 2 else ():
                    yield
                    if place == 2:
                        yield from self._metric(_message(metric))

    def _metric(self, view: memoryview) -> Iterator[None]:
        name = unit = ""
        data: tuple[int, memoryview] | None = None
        for number, value in self._fields(view):
            yield
            if number == 1:
                name = _text(value)
            elif number == 3:
                unit = _text(value)
            elif number in _KINDS:
                data = number, _message(value)
        if data is None:
            return
        kind, attributes_at = _KINDS[data[0]]
        for number, value in self._fields(data[1]):
            yield
            if number == 1:
                yield from self._point((name, kind, unit), attributes_at, _message(value))

    def _point(self, head: tuple[str, str, str], attributes_at: int, view: memoryview) -> Iterator[None]:
        if len(self.points) >= MOST_POINTS:
            self.hidden += 1
            return
        is_number = head[1] in ("gauge", "sum")
        attributes: list[tuple[str, str]] = []
        amount: float = 0
        observations = None if is_number else 0
        for number, value in self._fields(view):
            yield
            if number == attributes_at:
                if len(attributes) < _MOST_ATTRIBUTES:
                    attributes.append(self._attribute(_message(value)))
            elif number == (4 if is_number else 5):
                amount = _double(value)
            elif number == 6 and is_number:
                amount = _signed(value)
            elif number == 4:
                observations = _signed(value)
        self.points.append(Point(*head, tuple(attributes), amount, observations))

    def _attribute(self, view: memoryview) -> tuple[str, str]:
        key = text = ""
        for number, value in islice(self._fields(view), _MOST_ATTRIBUTE_FIELDS):
            if number == 1:
                key = _text(value)
            elif number == 2:
                text = self._any_value(_message(value))
        return key, text

    def _any_value(self, view: memoryview) -> str:
        """Text, a truth value or a number; lists are not shown."""
        text = ""
        for number, value in islice(self._fields(view), _MOST_ATTRIBUTE_FIELDS):
            if number == 1:
                text = _text(value)
            elif number == 2:
                text = "true" if value else "false"
            elif number == 3 and isinstance(value, int):
                text = str(value - (1 << 64) if value >> 63 else value)
            elif number == 4:
                text = repr(_double(value))
        return text

    def _fields(self, view: memoryview) -> Iterator[tuple[int, _Value]]:
        """The fields of a message: a number for a varint, else the bytes of the value."""
        position, end = 0, len(view)
        while position < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise MalformedMetricsError(f"more than {_MOST_FIELDS} fields")
            key, position = _varint(view, position)
            kind = key & 7
            if kind == _VARINT:
                number, position = _varint(view, position)
                yield key >> 3, number
                continue
            size = 8 if kind == _FIXED64 else 4 if kind == _FIXED32 else -1
            if kind == _BYTES:
                size, position = _varint(view, position)
            if size < 0 or position + size > end:
                raise MalformedMetricsError("a field ends after its message, or has no known form")
            yield key >> 3, view[position : position + size]
            position += size


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    for _ in range(_LONGEST_VARINT):
        byte = view[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, position
        shift += 7
    raise MalformedMetricsError("a number has more than ten bytes")


def _message(value: _Value) -> memoryview:
    if isinstance(value, int):
        raise MalformedMetricsError("a number stands where a message should")
    return value


def _text(value: _Value) -> str:
    return bytes(_message(value)[: _LONGEST_TEXT * 4]).decode("utf-8", "replace")[:_LONGEST_TEXT]


def _double(value: _Value) -> float:
    return float(_DOUBLE.unpack(_eight(value))[0])


def _signed(value: _Value) -> int:
    return int(_SIGNED.unpack(_eight(value))[0])


def _eight(value: _Value) -> memoryview:
    view = _message(value)
    if len(view) != _DOUBLE.size:
        raise MalformedMetricsError("a number of eight bytes has another length")
    return view
