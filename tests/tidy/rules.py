"""The rules of the house that a machine can hold, one function each.

A rule takes a file (or all of them) and answers complaints: the place, and what is wrong there. The rules
know nothing of this repository; `test_tree.py` applies them to it, `test_rules.py` shows that they can say
no.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

FUNCTION_LINES = 60
MODULE_LINES = 500
NAMES_THAT_SAY_NOTHING = {
    "util",
    "utils",
    "common",
    "helper",
    "helpers",
    "manager",
    "managers",
    "impl",
    "misc",
}

# Put together from halves, so that this file does not complain about itself.
UNFINISHED_WORDS = ("TO" + "DO", "FIX" + "ME", "X" * 3, "NotImplemented" + "Error")
_UNFINISHED = re.compile(r"\b(" + "|".join(UNFINISHED_WORDS) + r")\b")
_SKIPPED = re.compile(
    r"\b(?:(?:mark|pytest|unittest)\.(?:skip\w*|x" + r"fail|expectedFailure)|import" + r"orskip)\b"
)

# Places outside of the repository: a folder beside the checkout, an issue, a page that only the writer has.
_OUTSIDE = re.compile(r"\.\./shared\b|\bissue #?\d+\b")
_PAGE = re.compile(r"\b[A-Z][A-Z_]{2,}\.md\b")
PROSE_COLUMNS = 110

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")

ROOT_FILES = {
    *(
        ".gitignore",
        "CHANGELOG.md",
        "LICENSE",
        "Makefile",
        "README.md",
        "pyproject.toml",
        "requirements.lock",
    ),
    *(".python-version", "CONTRIBUTING.md", "SECURITY.md"),
}
KNOWN_PLACES = {"docs", ".ci"}  # what needs no room: the pages themselves, and how they are checked


@dataclass(frozen=True)
class SourceFile:
    """One file of the tree, parsed at most once."""

    path: str
    text: str

    @property
    def parts(self) -> tuple[str, ...]:
        return PurePosixPath(self.path).parts

    @property
    def stem(self) -> str:
        return PurePosixPath(self.path).stem

    @cached_property
    def module(self) -> ast.Module:
        return ast.parse(self.text, self.path)


def long_functions(file: SourceFile) -> Iterator[tuple[str, str]]:
    """Functions of more than sixty lines: there is a second one in them."""
    for node in _statements(file.module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                place = f"{file.path}::{node.name}"
                yield (
                    place,
                    f"{file.path}:{node.lineno}: {node.name} has {lines} lines, {FUNCTION_LINES} are enough",
                )


def _statements(parent: ast.AST) -> Iterator[ast.AST]:
    """Every statement below, without the expressions in them: those are nearly all of a tree, and hold no
    function.
    """
    for block in _BLOCKS:
        for node in getattr(parent, block, ()):
            yield node
            yield from _statements(node)


def long_module(file: SourceFile) -> Iterator[tuple[str, str]]:
    """Modules of more than five hundred lines: there is a second noun in them."""
    lines = file.text.count("\n")
    if lines > MODULE_LINES:
        yield file.path, f"{file.path}: {lines} lines, {MODULE_LINES} are enough"


def empty_names(file: SourceFile) -> Iterator[str]:
    """Modules and packages named after nothing in particular."""
    for part in (*file.parts[:-1], file.stem):
        if words := NAMES_THAT_SAY_NOTHING.intersection(part.lower().split("_")):
            yield f"{file.path}: {words.pop()!r} says nothing; find the noun"


def missing_docstring(file: SourceFile) -> Iterator[str]:
    """Modules that do not say what they are for. An `__init__.py` without a line of code has nothing to
    say.
    """
    if file.module.body and not ast.get_docstring(file.module):
        yield f"{file.path}: the module has no docstring"


def unfinished_marks(file: SourceFile, *, may_skip: bool) -> Iterator[str]:
    """Words that promise work for later, and tests that do not run."""
    for number, line in enumerate(file.text.splitlines(), 1):
        if found := _UNFINISHED.search(line):
            yield f"{file.path}:{number}: {found[0]}: finish it, or write down what is open where it is read"
        if not may_skip and (found := _SKIPPED.search(line)):
            yield f"{file.path}:{number}: {found[0]}: a test that does not run shows nothing"


def imports_of_tests(file: SourceFile) -> Iterator[str]:
    """Programs do not depend on tests: what both need lies in src or in bench."""
    for node in ast.walk(file.module):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        for name in names:
            if name.partition(".")[0] == "tests":
                yield f"{file.path}:{node.lineno}: imports {name}"


def outside_assignments(file: SourceFile) -> Iterator[str]:
    """Assignments to a field of another object: each field has one owner, which has a method for it.

    An object that the same function has just made may be filled in there.
    """
    for function in ast.walk(file.module):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            made = {"self", "cls", *_made_in(function)}
            for node in _own_statements(function):
                for target in _assigned(node):
                    if not (isinstance(target.value, ast.Name) and target.value.id in made):
                        yield f"{file.path}:{target.lineno}: {ast.unparse(target)} belongs to another object"


def _own_statements(function: ast.AST) -> Iterator[ast.AST]:
    """The statements of a function without those of functions inside it."""
    for block in _BLOCKS:
        for node in getattr(function, block, ()):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node
                yield from _own_statements(node)


def _made_in(function: ast.AST) -> Iterator[str]:
    """The names that a function binds to what a class, by its capital, has just made."""
    for node in _own_statements(function):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            maker = ast.unparse(node.value.func).split("[")[0].split(".")[-1]
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if maker.lstrip("_")[:1].isupper():
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def _assigned(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a statement assigns."""
    targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [getattr(node, "target", None)]
    for target in targets:
        for each in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            if isinstance(each, ast.Attribute):
                yield each


def misplaced_unit_test(path: str, paths: frozenset[str]) -> Iterator[str]:
    """Files of tests/unit that no module of src/ottla stands behind.

    A module may have several: test_recovery.py, test_recovery_properties.py.
    """
    below = PurePosixPath(path).relative_to("tests/unit")
    room = PurePosixPath("src/ottla") / below.parent
    if not below.name.startswith("test_"):
        if not _is_directory(str(room), paths):
            yield f"{path}: there is no {room}/"
        return
    words = below.stem.removeprefix("test_").split("_")
    subjects = [room / "_".join(words[:count]) for count in range(len(words), 0, -1)]
    if not any(f"{subject}.py" in paths or _is_directory(str(subject), paths) for subject in subjects):
        yield f"{path}: there is no {subjects[0]}.py that it could be the test of"


def references_to_the_outside(file: SourceFile, pages: frozenset[str]) -> Iterator[str]:
    """References that a reader of the repository cannot open: `pages` are the names of all pages in it."""
    for number, line in enumerate(file.text.splitlines(), 1):
        strays = [name for name in _PAGE.findall(line) if name not in pages]
        for found in [*_OUTSIDE.findall(line), *strays]:
            yield f"{file.path}:{number}: {found} is not in the repository; say it in words, or link a page of docs/"


def long_prose(file: SourceFile) -> Iterator[str]:
    """Lines of a page's prose over 110 columns. Tables, code and links that cannot be broken may be
    longer.
    """
    in_code = False
    for number, line in enumerate(file.text.splitlines(), 1):
        in_code ^= line.lstrip().startswith("```")
        is_prose = not in_code and not line.startswith(("|", "    ", "<!--")) and len(line.split()) > 2
        if is_prose and len(line) > PROSE_COLUMNS:
            yield f"{file.path}:{number}: {len(line)} columns, {PROSE_COLUMNS} are enough"


def outside_the_rooms(paths: Iterable[str], page: str) -> Iterator[str]:
    """Files in places that the page on architecture does not name (in backticks)."""
    rooms = {name.rstrip("/") for name in re.findall(r"`([\w./-]+)`", page)}
    for path in paths:
        if (place := _place_of(path)) and place not in rooms:
            yield f"{path}: docs/architecture.md names no {place}"


def _place_of(path: str) -> str | None:
    """The place that the page must name for this file; None when it need not."""
    top, *below = PurePosixPath(path).parts
    if not below:
        return None if top in ROOT_FILES else top
    if top in KNOWN_PLACES:
        return None
    if top == "tests":
        return f"tests/{below[0]}" if len(below) > 1 else None
    if top != "src":
        return top
    if below[0] == "ottla" and len(below) > 1:
        return below[1] if below[1] not in ("__init__.py", "__main__.py", "py.typed") else None
    return f"src/{below[0]}"


def _is_directory(path: str, paths: frozenset[str]) -> bool:
    return any(other.startswith(path + "/") for other in paths)
