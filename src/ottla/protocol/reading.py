"""Compiles the reading half of a codec: declaration and version in, straight-line Python out.

The generated function has three variables: `view` (the input), `size` (its end) and `pos`. Neighbouring
fields of fixed size are read by one `struct` call, together with the length that follows them: a compact
length is nearly always one byte, so it is read as such and only a larger one takes the long way. That is most
of the speed.

How hostile bytes are caught: reading past the end raises struct.error or IndexError, turned into DecodeError
once, at the outside; slices do not raise, so each length is compared with the bytes left before anything is
made of it, and each array count with the bytes that its elements need at the least, and with `room`, the
elements a message may still have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from struct import error as struct_error
from struct import unpack_from
from typing import Any, Final
from uuid import UUID

from ottla.protocol.declaration import Wire
from ottla.protocol.function_source import Source
from ottla.protocol.layout import Field, described, layout, smallest_size_bytes
from ottla.protocol.primitives import (
    DecodeError,
    read_uvarint,
    refuse_count,
    refuse_length,
    refuse_tag,
    skip_tags,
    uuid_of,
)

# An element of three bytes can become objects of 240, so the bytes received alone do not bound memory well: a
# frame of 100 MiB could take 8 GiB. The metadata of 200,000 partitions has a quarter of this many elements;
# numbers do not count.
MAX_ELEMENTS: Final = 1_000_000

_NAMES: Final = {
    "DecodeError": DecodeError,
    "read_uvarint": read_uvarint,
    "refuse_count": refuse_count,
    "refuse_length": refuse_length,
    "refuse_tag": refuse_tag,
    "skip_tags": skip_tags,
    "struct_error": struct_error,
    "unpack_from": unpack_from,
    "uuid_of": uuid_of,
}


def compile_read(
    cls: type[Any], version: int, flexible: bool
) -> Callable[[memoryview, int], tuple[Any, int]]:
    """A function that reads one `cls` of `version` at a position, and tells where it ends."""
    title = f"{cls.__name__} v{version}"
    source = Source()
    with source.block("def read(view, pos):"):
        with source.block("try:"):
            source.line("size = len(view)")
            source.line(f"room = {MAX_ELEMENTS}")
            value = _Reader(source, version, flexible).struct(cls, cls.__name__)
            source.line(f"return {value}, pos")
        with source.block("except (struct_error, IndexError):"):
            source.line(f"raise DecodeError('{title}: the bytes end too early') from None")
        with source.block("except UnicodeDecodeError:"):
            source.line(f"raise DecodeError('{title}: a string is not UTF-8') from None")
    function: Callable[[memoryview, int], tuple[Any, int]] = source.compile("read", f"<read {title}>", _NAMES)
    return function


class _Reader:
    """Emits the code for one version. Methods named after a part of a message return the expression of its
    value.
    """

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible
        self._run: list[tuple[str, str]] = []  # fixed-size values not read yet: struct code, variable

    def struct(self, cls: type[Any], path: str) -> str:
        fields = layout(cls, self._version)
        values = {f.name: self._field(f, f"{path}.{f.name}") for f in fields.plain}
        if self._flexible:
            values |= self._tags(fields.tagged, path)
        self._flush()
        values |= {f.name: self._default(f) for f in fields.absent}
        arguments = ", ".join(values[f.name] for f in described(cls))
        return f"{self._source.constant(cls.__name__, cls)}({arguments})"

    def _field(self, field: Field, path: str) -> str:
        if field.is_array:
            return self._array(field, path)
        if field.fixed is not None:
            return self._fixed(field.fixed, field.name)
        if isinstance(field.kind, Wire):
            return self._sized(field, path)
        if field.is_nullable(self._version):
            return self._nullable_struct(field.kind, field.name, path)
        return self.struct(field.kind, path)

    def _fixed(self, wire: Wire, name: str) -> str:
        variable = self._source.fresh(name)
        self._run.append((wire.code, variable))
        return f"uuid_of({variable})" if wire.name == "uuid" else variable

    def _sized(self, field: Field, path: str) -> str:
        """A string or bytes."""
        value, length = self._source.fresh(field.name), self._length("h" if _is_string(field) else "i")
        # tobytes().decode() makes one small copy, and is still faster than str(view, "utf-8").
        content = "view[pos:end].tobytes().decode()" if _is_string(field) else "view[pos:end]"

        def read() -> None:
            self._source.line(f"end = pos + {length}" + (" - 1" if self._flexible else ""))
            self._source.line(f"if not pos <= end <= size: refuse_length({path!r}, end - pos, size - pos)")
            self._source.line(f"{value} = {content}")
            self._source.line("pos = end")

        self._unless_null(field, value, length, read)
        return value

    def _array(self, field: Field, path: str) -> str:
        value, count = self._source.fresh(field.name), self._length("i")
        element_bytes = smallest_size_bytes(field.kind, self._version, self._flexible)
        assert element_bytes > 0, f"{path}: a count of empty elements would not be bounded by the input"

        def read() -> None:
            if self._flexible:
                self._source.line(f"{count} -= 1")
            self._source.line(
                f"if not 0 <= {count} * {element_bytes} <= size - pos: refuse_length({path!r}, {count}, size - pos)"
            )
            self._elements(field, value, count, path)

        self._unless_null(field, value, count, read)
        return value

    def _elements(self, field: Field, value: str, count: str, path: str) -> None:
        kind = field.kind
        if isinstance(kind, Wire) and kind.code and kind.name != "uuid":
            self._source.line(f"{value} = list(unpack_from(f'>{{{count}}}{kind.code}', view, pos))")
            self._source.line(f"pos += {count} * {kind.size_bytes}")
            return
        self._source.line(f"room -= {count}")
        self._source.line(f"if room < 0: refuse_count({path!r})")
        self._source.line(f"{value} = []")
        # A while loop makes no range object; most arrays of the hot path have one element.
        with self._source.block(f"while {count}:"):
            self._source.line(f"{count} -= 1")
            element = self._field(replace(field, is_array=False, nullable_first=None, tag=None), path)
            self._flush()
            self._source.line(f"{value}.append({element})")

    def _unless_null(self, field: Field, value: str, length: str, read: Callable[[], None]) -> None:
        """Emit `read`, after the long form of a compact length and, where it may be, null."""

        def read_at_length() -> None:
            if self._flexible:
                self._long_length(length, often=not field.is_array and not _is_string(field))
            read()

        if not field.is_nullable(self._version):
            read_at_length()
            return
        with self._source.block(f"if {length} == {0 if self._flexible else -1}:"):
            self._source.line(f"{value} = None")
        with self._source.block("else:"):
            read_at_length()

    def _long_length(self, length: str, often: bool) -> None:
        """Emit the long form of a compact length; record sets `often` take two bytes, so these are read in
        line.
        """
        with self._source.block(f"if {length} > 127:"):
            if not often:
                self._source.line(f"{length}, pos = read_uvarint(view, pos - 1)")
                return
            with self._source.block("if view[pos] < 128:"):
                self._source.line(f"{length} += (view[pos] << 7) - 128")
                self._source.line("pos += 1")
            with self._source.block("else:"):
                self._source.line(f"{length}, pos = read_uvarint(view, pos - 1)")

    def _nullable_struct(self, cls: type[Any], name: str, path: str) -> str:
        marker, value = self._source.fresh("marker"), self._source.fresh(name)
        self._run.append(("b", marker))
        self._flush()
        with self._source.block(f"if {marker} < 0:"):
            self._source.line(f"{value} = None")
        with self._source.block("else:"):
            self._source.line(f"{value} = {self.struct(cls, path)}")
        return value

    def _tags(self, tagged: tuple[Field, ...], path: str) -> dict[str, str]:
        """The section of tagged fields that ends every struct of a flexible version: nearly always one zero
        byte.
        """
        count = self._source.fresh("tags")
        self._run.append(("B", count))
        self._flush()
        values = {f.name: self._source.fresh(f.name) for f in tagged}
        for f in tagged:
            self._source.line(f"{values[f.name]} = {self._default(f)}")
        with self._source.block(f"if {count}:"):
            if tagged:
                self._known_tags(tagged, values, count, path)
            else:
                self._source.line("pos = skip_tags(view, pos - 1)")
        return values

    def _known_tags(self, tagged: tuple[Field, ...], values: dict[str, str], count: str, path: str) -> None:
        number, tag_end = self._source.fresh("number"), self._source.fresh("tag_end")
        self._source.line(f"{count}, pos = read_uvarint(view, pos - 1)")
        with self._source.block(f"while {count}:"):
            self._source.line(f"{count} -= 1")
            self._source.line(f"{number}, pos = read_uvarint(view, pos)")
            self._source.line(f"{tag_end}, pos = read_uvarint(view, pos)")
            self._source.line(f"{tag_end} += pos")
            self._source.line(f"if {tag_end} > size: refuse_length({path!r}, {tag_end} - pos, size - pos)")
            for f in tagged:
                with self._source.block(f"if {number} == {f.tag}:"):
                    value = self._field(f, f"{path}.{f.name}")
                    self._flush()
                    self._source.line(f"{values[f.name]} = {value}")
            with self._source.block(f"if {number} not in {{{', '.join(str(f.tag) for f in tagged)}}}:"):
                self._source.line(f"pos = {tag_end}")
            self._source.line(f"if pos != {tag_end}: refuse_tag({path!r}, {number}, {tag_end}, pos)")

    def _length(self, code: str) -> str:
        """Read a length with all that was pending before it."""
        length = self._source.fresh("length")
        self._run.append(("B" if self._flexible else code, length))
        self._flush()
        return length

    def _flush(self) -> None:
        if not self._run:
            return
        codes, variables = zip(*self._run, strict=True)
        unpack, size = self._source.unpacker("".join(codes))
        read = "view[pos]," if codes == ("B",) else f"{unpack}(view, pos)"
        self._source.line(f"{', '.join(variables)}, = {read}")
        self._source.line(f"pos += {size}")
        self._run.clear()

    def _default(self, field: Field) -> str:
        """The expression of a default: lists and structs are new for each message, since their owner may
        change them.
        """
        if isinstance(field.default, list):
            return "[]"
        if isinstance(field.default, UUID):
            return self._source.constant("default", field.default)
        if isinstance(field.kind, type) and field.default is not None:
            return f"{self._source.constant(field.kind.__name__, field.kind)}()"
        return repr(field.default)


def _is_string(field: Field) -> bool:
    return isinstance(field.kind, Wire) and field.kind.name == "string"
