"""Every link of a page leads somewhere: to a file, and there to a heading, if it names one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")])
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def links_of(page: Path) -> list[str]:
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]


def leads_somewhere(page: Path, link: str) -> bool:
    """Headings are named as GitHub writes them in an address."""
    name, _, anchor = link.partition("#")
    file = page.parent / name if name else page
    if not anchor or not file.exists():
        return file.exists()
    headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return anchor in [re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [link for link in links_of(page) if not leads_somewhere(page, link)] == []


def test_a_link_into_nothing_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Good news\n[a](#good-news) [b](#bad-news) [c](none.md) [d](page.md#good-news) [e](https://x) `[f](g)`\n"
    )
    assert links_of(page) == ["#good-news", "#bad-news", "none.md", "page.md#good-news"]
    assert [leads_somewhere(page, link) for link in links_of(page)] == [True, False, False, True]
