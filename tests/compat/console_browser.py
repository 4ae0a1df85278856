"""A browser of this machine that looks at the console, and complains about what it must not see.

A page that logs an error, raises one, or violates its content policy fails the test that looks.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright
from tests.repository import ROOT

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
# OTTLA_SCREENSHOTS=1 writes the pictures of docs/console.md; otherwise they are looked at and thrown away.
WRITES_PICTURES = bool(os.environ.get("OTTLA_SCREENSHOTS"))
expect.set_options(timeout=30_000)


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium, if this machine has one."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("NO BROWSER: the console is not looked at; apt-get install chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        try:
            yield started
        finally:
            started.close()


class Looker:
    """One tab of the console."""

    def __init__(self, page: Page, port: int) -> None:
        self.page = page
        self.port = port
        self.complaints: list[str] = []
        self.expected: tuple[str, ...] = ()
        page.on("console", lambda message: self._said(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))

    def _said(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(word in text for word in self.expected):
            self.complaints.append(f"{kind}: {text}")

    def open(self, place: str = "") -> None:
        self.page.goto(f"http://localhost:{self.port}/console#/{place}")

    def go(self, place: str) -> None:
        """Another page of the console, without loading it again."""
        self.page.evaluate("place => { location.hash = '#/' + place; }", place)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def see(self, text: str) -> None:
        expect(self.page.get_by_text(text).first).to_be_visible()

    def title(self, text: str) -> None:
        expect(self.page.get_by_role("heading", level=1)).to_have_text(text)

    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    def done(self, words: str) -> None:
        """An action has told its outcome; its window is closed."""
        expect(self.dialog().get_by_role("status").filter(has_text=words)).to_be_visible()
        self.dialog().get_by_role("button", name="Close").last.click()
        expect(self.dialog()).to_have_count(0)

    def picture(self, name: str, tmp_path: Path) -> None:
        folder = ROOT / "docs" / "console" if WRITES_PICTURES else tmp_path
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.png").write_bytes(repacked(self.page.screenshot(animations="disabled")))


def repacked(png: bytes) -> bytes:
    """The same picture, compressed as well as zlib can: a browser is in a hurry."""
    chunks: list[tuple[bytes, bytes]] = []
    at = 8
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        chunks.append((png[at + 4 : at + 8], png[at + 8 : at + 8 + size]))
        at += 12 + size
    data = zlib.compress(zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT")), 9)
    kept = [(b"IHDR", chunks[0][1]), (b"IDAT", data), (b"IEND", b"")]
    return png[:8] + b"".join(
        len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")
        for kind, body in kept
    )


@contextmanager
def looking(
    started: Browser, port: int, *, width: int = 1120, height: int = 680, dark: bool = False
) -> Iterator[Looker]:
    """A tab of its own, without cookies; at the end nothing may have been wrong."""
    context = started.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        accept_downloads=True,
    )
    try:
        looker = Looker(context.new_page(), port)
        yield looker
        assert not looker.complaints, looker.complaints
    finally:
        context.close()
