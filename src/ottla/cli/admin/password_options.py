"""Where a new password comes from: a prompt, a file, or standard input. Never an argument, which others can see."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

# Nobody types more; a wrong file would be sent to the salting whole.
_MOST_BYTES = 1024


def password_options(command: F) -> F:
    """`--password-file` and `--password-stdin`; read them with `password_given`."""
    for option in (
        click.option("--password-stdin", "from_stdin", is_flag=True, help="Read it from standard input."),
        click.option(
            "--password-file",
            "file",
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Read it from the first line of a file.",
        ),
    ):
        command = option(command)
    return command


def password_given(file: Path | None, from_stdin: bool) -> str:
    """The password; without an option, asked for twice."""
    if file is not None and from_stdin:
        raise click.UsageError("give --password-file or --password-stdin, not both")
    if file is not None:
        return _from_file(file)
    if from_stdin:
        return _first_line(sys.stdin.buffer.read(_MOST_BYTES + 1), "standard input")
    if not sys.stdin.isatty():
        raise click.UsageError(
            "there is no terminal to ask for a password: give --password-file or --password-stdin"
        )
    asked: str = click.prompt("Password", hide_input=True, confirmation_prompt="Once more")
    return asked


def _from_file(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return _first_line(opened.read(_MOST_BYTES + 1), str(file))
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror or error}.") from error


def _first_line(content: bytes, source: str) -> str:
    line = content.split(b"\n", 1)[0].removesuffix(b"\r")
    try:
        password = line.decode()
    except UnicodeDecodeError as error:
        raise click.ClickException(f"The password in {source} is not UTF-8.") from error
    if not password:
        raise click.ClickException(f"There is no password in the first line of {source}.")
    if len(line) > _MOST_BYTES:
        raise click.ClickException(f"The first line of {source} is longer than {_MOST_BYTES} bytes.")
    return password
