"""This repository keeps the rules of the house (part of `make check`).

The checked files are those that git would commit: its files, and new ones that are not ignored.
"""

import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tests.tidy import rules
from tests.tidy.rules import SourceFile

ROOT = Path(__file__).parents[2]

# Places that may be longer than the rule says, each with the reason: "path" for a module, "path::name" for a
# function. It starts empty, and an entry that is no longer needed fails.
MAY_BE_LONG: dict[str, str] = {}

# Tests may be skipped, loudly, only for the lack of what cannot be fetched: the definitions of Kafka's
# messages beside the checkout, or the clients and the Apache Kafka that PyPI does not have.
MAY_SKIP = (
    "tests/conformance/",
    "tests/compat/",
    "tests/clients/conftest.py",
    "tests/clients/groups/conftest.py",
    "tests/conftest.py",
)

# Looks for Kafka's message definitions beside the checkout: they are not ours to keep in the repository.
MAY_LOOK_OUTSIDE = ("tests/conformance/kafka_schema.py",)

# Pages with lines over 110 columns, each with the reason. An entry that is no longer needed fails.
MAY_HAVE_LONG_LINES: dict[str, str] = {}

_PRODUCER_STATE = "a batch, its queue and its topic are the state of one machine, which has several files"

# Files that assign fields of other objects, each with the reason. An entry that is no longer needed fails.
MAY_ASSIGN_OUTSIDE = {
    "src/ottla/controller/describe/cluster.py": "fills in response messages, which nobody else holds",
    "src/ottla/log/producers/producer_state.py": "a copy of its own class, which every append makes",
    "src/ottla/replication/fetch_session.py": "a cached partition is its session's own; every fetch moves many",
    "src/ottla/server/answers/send_queue.py": "a cursor of this module's own, moved in the loop that sends",
    "src/ottla/server/apis/cluster.py": "fills in response messages, which nobody else holds",
    "src/ottla/server/apis/fetch.py": "fills in results and its own reading, which nobody else holds",
    "src/ottla/server/apis/follower_fetch.py": "fills in results and its own reading, which nobody else holds",
    "src/ottla/server/apis/group_offsets.py": "fills in messages, which nobody else holds",
    "src/ottla/server/apis/offsets.py": "fills in response messages, which nobody else holds",
    "src/ottla/server/apis/produce.py": "fills in response messages, which nobody else holds",
    "src/ottla/server/net/connection.py": "moves its buffer's start in the loop that every small request pays for",
    "src/ottla/server/replicas/fetcher_session.py": "notes questions on its own entries, a class of this module",
    "src/ottla/server/replicas/follower_sessions.py": "a session and its cursors, classes of this module",
    "src/ottla/client/producer/machine/accumulator.py": _PRODUCER_STATE,
    "src/ottla/client/producer/machine/batch.py": _PRODUCER_STATE,
    "src/ottla/client/producer/machine/batch_answers.py": _PRODUCER_STATE,
    "src/ottla/client/producer/machine/idempotence.py": _PRODUCER_STATE,
    "src/ottla/client/producer/machine/memory_ledger.py": _PRODUCER_STATE,
    "src/ottla/client/producer/machine/partition_queue.py": _PRODUCER_STATE,
    "src/ottla/client/producer/machine/partitioners.py": "a partitioner is a function, and keeps its place in the topic",
    "src/ottla/client/producer/delivery.py": "the path of every awaited record, where a call would be felt",
    "src/ottla/client/producer/producer.py": "the path of every record, where a call would be felt",
}


@cache
def paths() -> frozenset[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
    return frozenset(path for path in done.stdout.split("\0") if path and (ROOT / path).is_file())


@cache
def python_files() -> tuple[SourceFile, ...]:
    found = sorted(path for path in paths() if path.endswith(".py"))
    return tuple(SourceFile(path, (ROOT / path).read_text(encoding="utf-8")) for path in found)


@cache
def pages() -> tuple[SourceFile, ...]:
    found = sorted(path for path in paths() if path.endswith(".md"))
    return tuple(SourceFile(path, (ROOT / path).read_text(encoding="utf-8")) for path in found)


def files_in(*places: str) -> Iterator[SourceFile]:
    return (file for file in python_files() if file.path.startswith(places))


def none_of(complaints: Iterator[str]) -> None:
    found = list(complaints)
    assert not found, "\n" + "\n".join(found)


@cache
def too_long(rule: Callable[[SourceFile], Iterator[tuple[str, str]]]) -> dict[str, str]:
    return {place: text for file in python_files() for place, text in rule(file)}


def test_no_function_is_too_long() -> None:
    found = too_long(rules.long_functions)
    none_of(text for place, text in found.items() if place not in MAY_BE_LONG)


def test_no_module_is_too_long() -> None:
    found = too_long(rules.long_module)
    none_of(text for place, text in found.items() if place not in MAY_BE_LONG)


def test_what_may_be_long_is_long_and_says_why() -> None:
    found = {**too_long(rules.long_functions), **too_long(rules.long_module)}
    none_of(f"{place}: is not too long any more" for place in MAY_BE_LONG if place not in found)
    none_of(
        f"{place}: no reason is given" for place, reason in MAY_BE_LONG.items() if len(reason.split()) < 4
    )


def test_every_name_is_a_noun() -> None:
    none_of(text for file in python_files() for text in rules.empty_names(file))


def test_every_module_says_what_it_is_for() -> None:
    none_of(text for file in files_in("src/") for text in rules.missing_docstring(file))


def test_nothing_is_left_unfinished() -> None:
    files = files_in("src/", "tests/", "bench/", "examples/")
    none_of(
        text
        for file in files
        for text in rules.unfinished_marks(file, may_skip=file.path.startswith(MAY_SKIP))
    )


def test_no_program_imports_tests() -> None:
    none_of(text for file in files_in("src/", "bench/", "examples/") for text in rules.imports_of_tests(file))


def test_every_field_is_assigned_by_its_owner() -> None:
    rooms = ("server", "client", "wire", "log", "controller", "group", "transaction", "replication", "raft")
    files = files_in(*(f"src/ottla/{room}/" for room in rooms))
    found = {file.path: list(rules.outside_assignments(file)) for file in files}
    none_of(text for path, texts in found.items() if path not in MAY_ASSIGN_OUTSIDE for text in texts)
    none_of(f"{path}: assigns nothing outside any more" for path in MAY_ASSIGN_OUTSIDE if not found.get(path))


def test_unit_tests_mirror_the_source() -> None:
    files = files_in("tests/unit/")
    none_of(text for file in files for text in rules.misplaced_unit_test(file.path, paths()))


def test_every_file_is_in_a_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    none_of(rules.outside_the_rooms(sorted(paths()), page))


def test_nothing_refers_to_the_outside() -> None:
    names = frozenset(Path(page.path).name for page in pages()) | rules.ROOT_FILES
    files = (file for file in (*python_files(), *pages()) if file.path not in MAY_LOOK_OUTSIDE)
    none_of(text for file in files for text in rules.references_to_the_outside(file, names))


def test_prose_has_lines_that_fit() -> None:
    ours = [
        page
        for page in pages()
        if page.path.startswith("docs/") or page.path in ("README.md", "CONTRIBUTING.md")
    ]
    found = {page.path: list(rules.long_prose(page)) for page in ours}
    none_of(text for path, texts in found.items() if path not in MAY_HAVE_LONG_LINES for text in texts)
    none_of(f"{path}: has no long lines any more" for path in MAY_HAVE_LONG_LINES if not found[path])


def test_tests_that_run_alone_are_where_make_looks_for_them() -> None:
    marked = (file for file in files_in("tests/") if "pytest.mark." + "alone" in file.text)
    none_of(
        f"{file.path}: `make test` runs tests alone in tests/integration only"
        for file in marked
        if not file.path.startswith("tests/integration/")
    )
