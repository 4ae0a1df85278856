"""The table of checks in the documentation is the one that the broker works by."""

from __future__ import annotations

from docs.generators import checks

from ottla.protocol.apis import DECLARED_APIS
from ottla.security.acl.checks import CHECKS, UNCHECKED


def test_the_table_in_the_documentation_is_the_declared_one() -> None:
    page = checks.PAGE.read_text(encoding="utf-8")
    hint = "docs/security.md is stale; run: .venv/bin/python -m docs.generators.checks"
    assert checks.render(page) == page, hint


def test_every_served_api_is_in_the_table_or_needs_no_right() -> None:
    assert set(DECLARED_APIS) <= CHECKS.keys() | UNCHECKED
