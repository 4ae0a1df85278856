"""The command that does the same: every answer and every action of the console has one."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping


class CommandLines:
    """Writes commands for a cluster."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def line(self, *words: object, **options: object) -> str:
        """`ottla` with words and options, for a shell. `from_=3` is `--from 3`; True is an option alone, None none.

        A value that begins with a minus is joined by `=`, or it would be taken for an option.
        """
        parts = ["ottla", *map(str, words)]
        for name, value in options.items():
            parts += _option(f"--{name.strip('_').replace('_', '-')}", value)
        return " ".join(map(shlex.quote, [*parts, "--bootstrap", self._bootstrap]))

    def piped(self, text: str, *words: object, **options: object) -> str:
        """A command that reads a text."""
        return f"printf '%s\\n' {shlex.quote(text)} | {self.line(*words, **options)}"


def assignments(settings: Mapping[str, str]) -> list[str]:
    """Settings as `NAME=VALUE`."""
    return [f"{name}={value}" for name, value in settings.items()]


def _option(name: str, value: object) -> list[str]:
    if value is None or value is False or value == "":
        return []
    if value is True:
        return [name]
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [part for each in value for part in _option(name, each)]
    text = str(value)
    return [f"{name}={text}"] if text.startswith("-") else [name, text]
