"""The page of requirements, the sentences in its source and the tests agree, and every id that is used
exists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from docs.generators import requirements
from docs.generators.requirements import AREAS, Requirements, held_in, ids_in, render
from tests.tidy.test_tree import files_in, none_of, pages, python_files

DECLARED = requirements.declared()
HELD = requirements.held_by_tests()
# An id with a number that no sentence has; the ends of ranges count on their own.
_USED = re.compile(rf"\b(?:{AREAS})-\d+\b")


def test_the_page_is_the_generated_one() -> None:
    hint = "docs/requirements.md is stale; run: .venv/bin/python docs/generators/requirements.py"
    assert requirements.PAGE.read_text(encoding="utf-8") == render(DECLARED, HELD), hint


def test_every_id_that_is_used_is_on_the_page() -> None:
    def unknown() -> Iterator[str]:
        for file in (*python_files(), *pages()):
            for each in {*_USED.findall(file.text), *ids_in(file.text)} - DECLARED.sentences.keys():
                if file.path != "tests/tidy/test_requirements.py":
                    yield f"{file.path}: docs/requirements.md has no {each}"

    none_of(unknown())


def test_every_requirement_that_is_built_has_a_test() -> None:
    none_of(
        f"{each}: no test names it in a docstring; mark the test, or say in requirements.toml that it is not built"
        for each in DECLARED.sentences
        if each not in HELD and each not in DECLARED.not_built
    )


def test_what_is_not_built_has_no_test() -> None:
    none_of(f"{each}: {HELD[each][0]} holds it: it is built" for each in DECLARED.not_built if each in HELD)


def test_what_is_not_built_is_a_requirement() -> None:
    assert {*DECLARED.not_built, *DECLARED.missing} <= DECLARED.sentences.keys()
    assert not DECLARED.not_built & DECLARED.missing.keys()


def test_no_test_module_hides_from_the_page() -> None:
    """Ids in comments or strings of tests would look like marks and be none."""
    none_of(
        f"{file.path}: {each} stands outside of docstrings, where the page does not see it"
        for file in files_in("tests/")
        if file.path.rpartition("/")[2].startswith("test_") and not file.path.startswith("tests/tidy/")
        for each in set(ids_in(file.text)) - held_in(file.path, file.text).keys()
    )


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("torn tails (STO-9).", ["STO-9"]),
        ("GRP-1 to GRP-3, CHK-5", ["GRP-1", "GRP-2", "GRP-3", "CHK-5"]),
        ("CTL-3 to 5", ["CTL-3", "CTL-4", "CTL-5"]),
        ("KIP-227, UTF-8, ISO-8601", []),
    ],
)
def test_ids_are_found_in_words(text: str, ids: list[str]) -> None:
    assert list(ids_in(text)) == ids


def test_a_test_holds_what_its_module_class_function_or_name_says() -> None:
    text = '''
"""Reading (STO-7)."""
class TestRecovery:
    """STO-9."""
    def test_a_tail(self):
        """STO-7, STO-11."""
def test_chk_4_a_follower_is_cut_off():
    # RET-1 in a comment is no mark
    pass
'''.lstrip()
    assert held_in("tests/a.py", text) == {
        "STO-7": ["tests/a.py"],
        "STO-9": ["tests/a.py::TestRecovery"],
        "STO-11": ["tests/a.py::TestRecovery::test_a_tail"],
        "CHK-4": ["tests/a.py::test_chk_4_a_follower_is_cut_off"],
    }


def test_the_page_links_tests_and_names_what_is_not_built() -> None:
    sentences = {"STO-1": "One.", "STO-2": "Two.", "STO-3": "Three."}
    some = Requirements({"STO": "Storage"}, sentences, frozenset({"STO-2"}), {"STO-3": "the end"})
    text = render(some, {"STO-1": ["tests/unit/test_a.py"], "STO-3": ["tests/test_b.py::test_c"]})
    assert "| STO-1 | One. | [unit/test_a](../tests/unit/test_a.py) |" in text
    assert "| STO-2 | Two. | **not built yet** |" in text
    assert "| STO-3 | Three. | [test_b: test_c](../tests/test_b.py); **not built yet:** the end |" in text
