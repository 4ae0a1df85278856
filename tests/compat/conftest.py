"""Shared by the tests of foreign tools: everything here needs more than PyPI."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test below this directory carries the mark by which `make test` leaves it out."""
    for item in items:
        if "tests/compat/" in item.path.as_posix():
            item.add_marker(pytest.mark.compat)
