"""Writes docs/requirements.md: `.venv/bin/python docs/generators/requirements.py`.

`requirements.toml` beside this file has a sentence for each requirement. A test says which requirements it
holds: by their ids in the docstring of its module, its class or its function (`STO-9`, `GRP-1 to GRP-3`), or
by a name that begins with an id (`test_chk_4_…`). `tests/tidy` fails while the page, the sentences and the
tests disagree.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SENTENCES: Final = Path(__file__).with_name("requirements.toml")
PAGE: Final = ROOT / "docs" / "requirements.md"
AREAS: Final = "STO|RET|WIRE|CTL|REP|PRO|GRP|EOS|GTW|OPS|PIPE|CHK"

_ID: Final = re.compile(rf"\b({AREAS})-(\d+)(?:\s+to\s+(?:({AREAS})-)?(\d+))?\b")
_NAME: Final = re.compile(rf"test_({AREAS.lower()})_(\d+)_")
_HEAD: Final = """\
# Requirements

<!-- Generated from requirements.toml and the tests by docs/generators/requirements.py; change it there. -->

Each requirement of Ottla in one sentence, with the tests that hold it. A test names the requirements that it
holds in the docstring of its module, class or function. Where Apache Kafka's public behaviour is more
detailed than a sentence here, Kafka's behaviour decides, because every Kafka client is a client of Ottla.
"""


@dataclass(frozen=True, slots=True)
class Requirements:
    """The sentences by id, the titles of the areas, and what is not built."""

    titles: dict[str, str]
    sentences: dict[str, str]
    not_built: frozenset[str]
    missing: dict[str, str] = field(default_factory=dict)


def declared() -> Requirements:
    """The content of requirements.toml."""
    content = tomllib.loads(SENTENCES.read_text(encoding="utf-8"))
    areas = {name: content[name] for name in AREAS.split("|")}
    sentences = {
        f"{name}-{number}": text
        for name, area in areas.items()
        for number, text in area.items()
        if number != "title"
    }
    titles = {name: area["title"] for name, area in areas.items()}
    return Requirements(titles, sentences, frozenset(content["not_built"]["ids"]), content["missing"])


def ids_in(text: str) -> Iterator[str]:
    """The ids that a text names, ranges spelled out."""
    for area, first, last_area, last in _ID.findall(text):
        if last and last_area in ("", area):
            yield from (f"{area}-{number}" for number in range(int(first), int(last) + 1))
        else:
            yield f"{area}-{first}"


def held_in(path: str, text: str) -> dict[str, list[str]]:
    """The requirements that the tests of one file hold: id → the file, or names in it if only some tests hold
    it.
    """
    module = ast.parse(text)
    held: dict[str, list[str]] = {each: [path] for each in ids_in(ast.get_docstring(module) or "")}
    whole = set(held)
    for name, node in _definitions(module):
        named = [f"{area.upper()}-{number}" for area, number in _NAME.findall(node.name)]
        for each in dict.fromkeys([*named, *ids_in(ast.get_docstring(node) or "")]):
            if each not in whole:
                held.setdefault(each, []).append(f"{path}::{name}")
    return held


def _definitions(
    module: ast.Module,
) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Classes, functions and methods with their names as pytest writes them."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield node.name, node
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            yield from ((f"{node.name}::{method.name}", method) for method in methods)


def held_by_tests(root: Path = ROOT) -> dict[str, list[str]]:
    """All requirements that tests hold: id → places, in the order of their paths."""
    held: dict[str, list[str]] = {}
    for file in sorted((root / "tests").rglob("test_*.py")):
        path = str(file.relative_to(root))
        for each, places in held_in(path, file.read_text(encoding="utf-8")).items():
            held.setdefault(each, []).extend(places)
    return held


def render(requirements: Requirements, held: dict[str, list[str]]) -> str:
    lines = [_HEAD]
    for area, title in requirements.titles.items():
        lines += [f"## {area} {title}", "", "| id | requirement | tests |", "|---|---|---|"]
        for each, sentence in requirements.sentences.items():
            if each.startswith(f"{area}-"):
                lines.append(f"| {each} | {sentence} | {_tests(each, requirements, held.get(each, ()))} |")
        lines.append("")
    return "\n".join(lines)


def _tests(requirement: str, requirements: Requirements, places: Iterable[str]) -> str:
    if requirement in requirements.not_built:
        return "**not built yet**"
    text = ", ".join(_link(place) for place in places)
    if lacks := requirements.missing.get(requirement):
        return f"{text}; **not built yet:** {lacks}"
    return text


def _link(place: str) -> str:
    path, _, name = place.partition("::")
    label = path.removeprefix("tests/").removesuffix(".py") + (f": {name}" if name else "")
    return f"[{label}](../{path})"


if __name__ == "__main__":
    PAGE.write_text(render(declared(), held_by_tests()), encoding="utf-8")
