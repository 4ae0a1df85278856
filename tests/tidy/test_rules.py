"""A rule that cannot say no holds nothing: each is shown what it is there to find."""

import pytest
from tests.tidy import rules
from tests.tidy.rules import SourceFile


def source(text: str, path: str = "src/ottla/log/log.py") -> SourceFile:
    return SourceFile(path, text)


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_a_function_of_sixty_lines_may_stay_and_one_of_sixty_one_is_named(keyword: str) -> None:
    sixty = f"{keyword} f():\n" + "    pass\n" * 59
    assert list(rules.long_functions(source(sixty))) == []
    ((place, text),) = rules.long_functions(source("\n" + sixty + "    pass\n"))
    assert place == "src/ottla/log/log.py::f"
    assert text == "src/ottla/log/log.py:2: f has 61 lines, 60 are enough"


def test_a_long_method_is_found_inside_its_class() -> None:
    text = "class C:\n    def f(self):\n" + "        pass\n" * 60
    assert [place for place, _ in rules.long_functions(source(text))] == ["src/ottla/log/log.py::f"]


def test_a_module_of_five_hundred_lines_may_stay_and_one_of_501_is_named() -> None:
    assert list(rules.long_module(source("x\n" * 500))) == []
    ((place, text),) = rules.long_module(source("x\n" * 501))
    assert (place, text) == ("src/ottla/log/log.py", "src/ottla/log/log.py: 501 lines, 500 are enough")


@pytest.mark.parametrize(
    "path",
    ["src/ottla/log/utils.py", "src/ottla/common/log.py", "tests/unit/test_helpers.py", "a/group_manager.py"],
)
def test_names_that_say_nothing_are_found(path: str) -> None:
    (text,) = rules.empty_names(source("", path))
    assert text.startswith(f"{path}: ")


def test_names_that_only_sound_like_it_are_left_alone() -> None:
    assert list(rules.empty_names(source("", "src/ottla/implementation_notes/commons.py"))) == []


def test_a_module_without_a_docstring_is_found() -> None:
    assert list(rules.missing_docstring(source("import os\n"))) != []
    assert list(rules.missing_docstring(source('"""Why."""\nimport os\n'))) == []
    assert list(rules.missing_docstring(source("", "src/ottla/log/__init__.py"))) == []


@pytest.mark.parametrize(
    "text",
    ["from tests.clusters import eventually", "import tests.clusters as c", "from tests import clusters"],
)
def test_a_program_that_imports_tests_is_found(text: str) -> None:
    (found,) = rules.imports_of_tests(source(f"def f():\n    {text}\n", "bench/load.py"))
    assert found.startswith("bench/load.py:2: imports tests")
    assert list(rules.imports_of_tests(source("import testing\nfrom ottla.testing import Broker\n"))) == []


@pytest.mark.parametrize("word", rules.UNFINISHED_WORDS)
def test_words_of_unfinished_work_are_found(word: str) -> None:
    (text,) = rules.unfinished_marks(source(f"x = 1\n# {word}: later\n"), may_skip=True)
    assert text.startswith("src/ottla/log/log.py:2: ")
    assert list(rules.unfinished_marks(source(f"# {word}s\n"), may_skip=True)) == []


SKIPS = [
    "pytest.mark.s" + "kip",
    "pytest.mark.s" + "kipif(True)",
    "pytest.s" + "kip('no')",
    "pytest.mark.x" + "fail",
]


@pytest.mark.parametrize("line", [*SKIPS, "unittest.s" + "kip", "pytest.import" + "orskip('lz4')"])
def test_tests_that_do_not_run_are_found_where_they_must_run(line: str) -> None:
    assert len(list(rules.unfinished_marks(source(line), may_skip=False))) == 1
    assert list(rules.unfinished_marks(source(line), may_skip=True)) == []


def test_the_word_skip_alone_is_no_mark() -> None:
    assert (
        list(
            rules.unfinished_marks(
                source("clients skip what they do not know\nskip_tags(b)\n"), may_skip=False
            )
        )
        == []
    )


@pytest.mark.parametrize(
    "line",
    [
        "other.x = 1",
        "other.x += 1",
        "self.other.x = 1",
        "a, other.x = 1, 2",
        "del other.x",
        "other.x: int = 1",
    ],
)
def test_an_assignment_to_another_objects_field_is_found(line: str) -> None:
    text = f"class C:\n    def f(self, other):\n        if other:\n            {line}\n"
    (found,) = rules.outside_assignments(source(text))
    assert found.startswith("src/ottla/log/log.py:4: ")


@pytest.mark.parametrize(
    "lines",
    ["self.x = 1", "new = _Thing(1)\n    new.x = 2", "other = 1", "new: T = a.Thing[int]()\n    new.x += 2"],
)
def test_own_fields_and_those_of_a_new_object_may_be_assigned(lines: str) -> None:
    assert list(rules.outside_assignments(source(f"def f(self, other):\n    {lines}\n"))) == []


def test_a_unit_test_needs_a_module_or_a_package() -> None:
    paths = frozenset({"src/ottla/log/log.py", "src/ottla/config/topic.py"})
    assert list(rules.misplaced_unit_test("tests/unit/log/test_log.py", paths)) == []
    assert list(rules.misplaced_unit_test("tests/unit/log/test_log_properties.py", paths)) == []
    assert list(rules.misplaced_unit_test("tests/unit/test_config.py", paths)) == []
    assert list(rules.misplaced_unit_test("tests/unit/log/files.py", paths)) == []
    (text,) = rules.misplaced_unit_test("tests/unit/log/test_logs.py", paths)
    assert (
        text == "tests/unit/log/test_logs.py: there is no src/ottla/log/logs.py that it could be the test of"
    )
    assert len(list(rules.misplaced_unit_test("tests/unit/disk/files.py", paths))) == 1


OUTSIDE = ["../" + "shared/notes", "iss" + "ue 7", "PRIVATE" + ".md"]


@pytest.mark.parametrize("reference", OUTSIDE)
def test_references_that_a_reader_cannot_open_are_found(reference: str) -> None:
    pages = frozenset({"README.md"})
    (text,) = rules.references_to_the_outside(source(f"x\n# see {reference}, 3\n"), pages)
    named = reference.removesuffix("/notes")
    assert text.startswith(f"src/ottla/log/log.py:2: {named} is not in the repository")


def test_pages_of_the_repository_may_be_named() -> None:
    text = "README.md says more; an issue of ours; 3 issues; ../shared_memory; settings.md"
    assert list(rules.references_to_the_outside(source(text), frozenset({"README.md"}))) == []


def test_long_lines_of_prose_are_found_and_tables_and_code_are_not() -> None:
    words = "word " * 30
    (text,) = rules.long_prose(
        source(f"{words}\n| {words}|\n```\n{words}\n```\nhttps://{'x' * 200}\n", "a.md")
    )
    assert text == "a.md:1: 150 columns, 110 are enough"


PAGE = "`errors.py` and `log/` are rooms; `tests/unit` and `bench` are too, raft/ is not."


@pytest.mark.parametrize(
    "path",
    [
        *(
            "README.md",
            "docs/any.md",
            ".ci/run",
            "tests/conftest.py",
            "tests/unit/log/test_log.py",
            "bench/run.py",
        ),
        *("src/ottla/errors.py", "src/ottla/log/log.py", "src/ottla/__init__.py", "src/ottla/py.typed"),
    ],
)
def test_a_file_in_a_room_is_in_order(path: str) -> None:
    assert list(rules.outside_the_rooms([path], PAGE)) == []


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("notes.txt", "notes.txt"),
        ("scripts/run.py", "scripts"),
        ("src/ottla/raft/vote.py", "raft"),
        ("src/ottla/stray.py", "stray.py"),
        ("src/other/log.py", "src/other"),
        ("tests/random/test_x.py", "tests/random"),
    ],
)
def test_a_file_outside_is_named_with_the_room_it_lacks(path: str, place: str) -> None:
    assert list(rules.outside_the_rooms([path], PAGE)) == [f"{path}: docs/architecture.md names no {place}"]
