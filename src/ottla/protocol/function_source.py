"""The text of a function that is being generated, and the constants it refers to."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any, Final

_INDENT: Final = "    "


class Source:
    """Collects lines, hands out names, and compiles the whole."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0
        self._constants: dict[str, Any] = {}

    def line(self, text: str) -> None:
        """Add one line at the current depth."""
        self._lines.append(_INDENT * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Add a header; what is added inside is indented below it."""
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A variable name that nothing else uses."""
        self._names += 1
        return f"{stem}_{self._names}"

    def constant(self, stem: str, value: Any) -> str:
        """A global name for `value`; the same object always gets the same name."""
        for name, known in self._constants.items():
            if known is value:
                return name
        name = self.fresh(stem)
        self._constants[name] = value
        return name

    def unpacker(self, codes: str) -> tuple[str, int]:
        """The name of a function that unpacks these `struct` codes, and the bytes they take."""
        layout = Struct(">" + codes)
        return self._method(f"unpack_{codes}", layout.unpack_from), layout.size

    def packer(self, codes: str) -> str:
        """The name of a function that packs these `struct` codes."""
        return self._method(f"pack_{codes}", Struct(">" + codes).pack)

    def _method(self, name: str, method: Any) -> str:
        name = name.replace("?", "t")
        self._constants.setdefault(name, method)
        return name

    def compile(self, function: str, filename: str, names: dict[str, Any]) -> Any:
        """The function of that name; `names` are the globals it may use besides the constants."""
        text = "\n".join(self._lines) + "\n"
        scope = {**names, **self._constants}
        exec(compile(text, filename, "exec"), scope)
        # So that a traceback or a debugger shows the generated lines.
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        return scope[function]
