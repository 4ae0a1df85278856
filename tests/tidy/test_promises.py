"""The table of promises in the documentation is the declared one, and each of its cells is tested."""

from __future__ import annotations

import itertools

from docs.generators import promises
from tests.repository import ROOT
from tests.simulation.promises.table import FAULTS, PROMISES, SETTINGS


def test_the_table_in_the_documentation_is_the_declared_one() -> None:
    page = promises.PAGE.read_text(encoding="utf-8")
    hint = "docs/cluster.md is stale; run: .venv/bin/python -m docs.generators.promises"
    assert promises.render(page) == page, hint


def test_each_fault_and_setting_has_one_promise_with_a_tale() -> None:
    cells = [(promise.fault, promise.setting) for promise in PROMISES]
    assert cells == list(itertools.product(FAULTS, SETTINGS))
    assert all(promise.tales for promise in PROMISES)


def test_each_promise_names_tests_on_real_processes() -> None:
    for promise in PROMISES:
        assert promise.shown_by
        for test in promise.shown_by:
            path, _, name = test.partition("::")
            assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test
