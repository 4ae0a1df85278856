"""Compiles the writing half of a codec: declaration and version in, straight-line Python out.

The generated function appends to `out`. As in reading, neighbouring fields of fixed size are packed by one
`struct` call, together with the length that follows them. An empty section of tagged fields is a pad byte of
that call. A value that does not fit raises whatever Python raises; the slow path then finds the field and
says so in a ValueError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from struct import error as struct_error
from struct import pack
from typing import Any, Final
from uuid import UUID

from ottla.protocol.declaration import Wire
from ottla.protocol.function_source import Source
from ottla.protocol.layout import Field, described, layout
from ottla.protocol.primitives import put_tags, uvarint
from ottla.protocol.write_errors import misfit

_NAMES: Final = {
    "misfit": misfit,
    "pack": pack,
    "put_tags": put_tags,
    "struct_error": struct_error,
    "uvarint": uvarint,
}
_NO_TAGS: Final = ("x", "")  # a pad byte: the zero that says how many tagged fields follow


def compile_write(cls: type[Any], version: int, flexible: bool) -> Callable[[Any, bytearray], None]:
    """A function that appends one `cls` in `version`."""
    source = Source()
    with source.block("def write(message, out):"):
        with source.block("try:"):
            source.line("pass")  # a message may have no fields
            writer = _Writer(source, version, flexible)
            writer.struct(cls, "message")
            writer.flush()
        with source.block(
            "except (struct_error, TypeError, AttributeError, ValueError, OverflowError) as error:"
        ):
            source.line(f"raise misfit({source.constant('cls', cls)}, message, {version}, error) from error")
    filename = f"<write {cls.__name__} v{version}>"
    function: Callable[[Any, bytearray], None] = source.compile("write", filename, _NAMES)
    return function


class _Writer:
    """Emits the code for one version."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible
        self._run: list[tuple[str, str]] = []  # fixed-size values not written yet: struct code, expression

    def struct(self, cls: type[Any], owner: str) -> None:
        fields = layout(cls, self._version)
        for f in fields.plain:
            self._field(f, f"{owner}.{f.name}")
        if self._flexible and fields.tagged:
            self._tags(fields.tagged, owner)
        elif self._flexible:
            self._run.append(_NO_TAGS)

    def flush(self) -> None:
        """Emit what is pending."""
        if self._run == [_NO_TAGS]:
            self._source.line("out.append(0)")
        elif self._run:
            self._source.line(f"out += {self._pending()}")
        self._run.clear()

    def _field(self, field: Field, expression: str) -> None:
        if field.is_array:
            self._array(field, expression)
        elif field.fixed is not None:
            value = f"{expression}.int.to_bytes(16)" if field.fixed.name == "uuid" else expression
            self._run.append((field.fixed.code, value))
        elif isinstance(field.kind, Wire):
            self._sized(field, expression)
        elif field.is_nullable(self._version):
            self._nullable_struct(field.kind, expression)
        else:
            self.struct(field.kind, expression)

    def _sized(self, field: Field, expression: str) -> None:
        """A string or bytes."""
        is_string = isinstance(field.kind, Wire) and field.kind.name == "string"
        value, length = self._bind(field, expression, "b''", ".encode()" if is_string else "")
        self._length(length, "h" if is_string else "i")
        self._source.line(f"out += {value}")

    def _array(self, field: Field, expression: str) -> None:
        value, length = self._bind(field, expression, "()", "")
        self._length(length, "i")
        kind = field.kind
        if isinstance(kind, Wire) and kind.code and kind.name != "uuid":
            self._source.line(f"if {value}: out += pack(f'>{{len({value})}}{kind.code}', *{value})")
            return
        element = self._source.fresh("element")
        with self._source.block(f"for {element} in {value}:"):
            self._field(replace(field, is_array=False, nullable_first=None, tag=None), element)
            self.flush()

    def _bind(self, field: Field, expression: str, empty: str, conversion: str) -> tuple[str, str]:
        """Put a value, and its length as the wire has it, into variables; null is empty with the length of
        null.
        """
        value, length = self._source.fresh(field.name), self._source.fresh("length")
        measured = f"len({value})" + (" + 1" if self._flexible else "")
        if not field.is_nullable(self._version):
            self._source.line(f"{value} = {expression}{conversion}")
            self._source.line(f"{length} = {measured}")
            return value, length
        self._source.line(f"{value} = {expression}")
        with self._source.block(f"if {value} is None:"):
            self._source.line(f"{length} = {0 if self._flexible else -1}")
            self._source.line(f"{value} = {empty}")
        with self._source.block("else:"):
            if conversion:
                self._source.line(f"{value} = {value}{conversion}")
            self._source.line(f"{length} = {measured}")
        return value, length

    def _length(self, length: str, code: str) -> None:
        """Write a length with all that was pending before it."""
        if not self._flexible:
            self._run.append((code, length))
            self.flush()
            return
        with self._source.block(f"if {length} < 128:"):
            if self._run:
                self._source.line(f"out += {self._pending(('B', length))}")
            else:
                self._source.line(f"out.append({length})")
        with self._source.block("else:"):
            self.flush()
            self._source.line(f"out += uvarint({length})")

    def _nullable_struct(self, cls: type[Any], expression: str) -> None:
        self.flush()
        with self._source.block(f"if {expression} is None:"):
            self._source.line("out.append(255)")
        with self._source.block("else:"):
            self._source.line("out.append(1)")
            self.struct(cls, expression)
            self.flush()

    def _tags(self, tagged: tuple[Field, ...], owner: str) -> None:
        """The tagged fields that are not their default; each is written apart, since its size stands before
        it.
        """
        self.flush()
        tags, outer = self._source.fresh("tags"), self._source.fresh("outer")
        self._source.line(f"{tags} = []")
        for f in tagged:
            expression = f"{owner}.{f.name}"
            with self._source.block(f"if {self._differs(f, expression)}:"):
                self._source.line(f"{outer}, out = out, bytearray()")
                self._field(f, expression)
                self.flush()
                self._source.line(f"{tags}.append(({f.tag}, out))")
                self._source.line(f"out = {outer}")
        self._source.line(f"if {tags}: put_tags(out, {tags})")
        self._source.line("else: out.append(0)")

    def _differs(self, field: Field, expression: str) -> str:
        """The condition that a value is not the default; spelled out, because comparing dataclasses is
        slow.
        """
        if field.default is None:
            return f"{expression} is not None"
        if isinstance(field.default, UUID):
            return f"{expression}.int != {field.default.int}"
        if isinstance(field.kind, type) and not field.is_array:
            return " or ".join(self._differs(f, f"{expression}.{f.name}") for f in described(field.kind))
        return f"{expression} != {field.default!r}"

    def _pending(self, *more: tuple[str, str]) -> str:
        """The expression that packs what is pending, and `more`."""
        run = [*self._run, *more]
        pack = self._source.packer("".join(code for code, _ in run))
        return f"{pack}({', '.join(expression for code, expression in run if code != 'x')})"
