"""A bug as a change of shipped code: an edit of a function's source, or another value of a name.

An edit compiles the function again with one piece of its source replaced, and puts the new code into the function that
is there, so that every module, table and bound method that holds the function runs the bug. A piece that is not in the
source exactly once is an error: the code has changed, and the bug has to follow it.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType
from typing import Any
from unittest.mock import patch


class Edit:
    """Another piece of source in one function, method or property."""

    def __init__(self, function: Any, old: str, new: str) -> None:
        self.function = function.fget if isinstance(function, property) else inspect.unwrap(function)
        self.old = old
        self.new = new


class Swap:
    """Another value of an attribute of a class or module."""

    def __init__(self, target: Any, attribute: str, value: Any) -> None:
        self._target = target
        self._attribute = attribute
        self._value = value

    def made(self) -> Any:
        """Have the other value inside this context."""
        return patch.object(self._target, self._attribute, self._value)


class Bug:
    """A mistake that a person could make. `mistake` says what is wrong, for the reader of a report.

    `faults` are those that bring the mistake to light soonest; without any, a story with all faults does.
    """

    def __init__(self, name: str, mistake: str, *changes: Edit | Swap, faults: tuple[str, ...] = ()) -> None:
        self.name = name
        self.mistake = mistake
        self.faults = faults
        self._changes = changes

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Shipped code with this bug in it."""
        edits: dict[Any, list[Edit]] = {}
        with ExitStack() as stack:
            for change in self._changes:
                if isinstance(change, Swap):
                    stack.enter_context(change.made())
                else:
                    edits.setdefault(change.function, []).append(change)
            for function, pieces in edits.items():
                stack.enter_context(_running(function, _edited(function, pieces)))
            yield


@contextmanager
def _running(function: Any, code: CodeType) -> Iterator[None]:
    before = function.__code__
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = before


def _edited(function: Any, edits: list[Edit]) -> CodeType:
    """The code of a function with some pieces of its source replaced."""
    source = textwrap.dedent(inspect.getsource(function))
    for edit in edits:
        found = source.count(edit.old)
        assert found == 1, f"{function.__qualname__} has this {found} times: {edit.old}"
        source = source.replace(edit.old, edit.new)
    tree = ast.parse(source)
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    definition.decorator_list = []
    flags = __future__.annotations.compiler_flag
    module = compile(tree, inspect.getfile(function), "exec", flags, dont_inherit=True)
    (code,) = (
        each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == definition.name
    )
    return code
