"""The gateway in a real browser: the consumers of the source document, and our own client."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright
from tests.integration.gateway_place import GatewayPlace, gateway_place

import ottla.testing
from ottla.localcluster.waiting import wait_until
from ottla.testing.embedded_broker import EmbeddedBroker

pytestmark = pytest.mark.compat
PROGRAMS = Path(__file__).parent / "gateway"
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
# What Node has and a browser has not.
NODE = "globalThis.process = {argv: ['', '', ...%s], exit() {}};"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker() as started:
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(broker.bootstrap, listen="localhost:0") as place:
        yield place


@pytest.fixture(scope="module")
def page(gateway: GatewayPlace) -> Iterator[Page]:
    browser_path = os.environ.get("OTTLA_CHROMIUM") or shutil.which("chromium")
    if browser_path is None:
        pytest.skip("NO CHROMIUM: the gateway is not called from a browser (apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        try:
            # The page of the gateway itself allows no scripts but its own; the ones of a user are on a page of theirs.
            opened = browser.new_page(bypass_csp=True)
            opened.goto(f"http://localhost:{gateway.port}/")
            yield opened
        finally:
            browser.close()


def run(page: Page, program: str, *arguments: str) -> object:
    """Run a program that was written for Node as a module of the page; what it prints is JSON."""
    printed: list[str] = []
    page.on("console", lambda message: printed.append(message.text))
    page.add_script_tag(content=NODE % json.dumps(arguments))
    page.add_script_tag(content=program, type="module")

    def has_printed() -> bool:
        page.wait_for_timeout(50)  # lets the events of the browser in
        return bool(printed)

    wait_until(has_printed, "the program printed what it has seen", 60)
    return json.loads(printed[0])


def test_the_consumers_of_the_source_document_work_in_a_browser(
    page: Page, gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("browser-events")
    program = (PROGRAMS / "source_document.mjs").read_text(encoding="utf-8")
    drinks = [{"drink": each} for each in ("coffee", "tea", "water")]
    assert run(page, program, str(gateway.port), topic) == {"poll": drinks, "socket": drinks}


def test_our_own_client_goes_on_in_a_browser_after_its_connection_broke(
    page: Page, gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    page.reload()
    topic = broker.create_topic("browser-client")
    program = (PROGRAMS / "own_client.mjs").read_text(encoding="utf-8")
    seen = run(page, program, "/client.js", str(gateway.port), topic)
    assert seen == [[offset, offset] for offset in range(4)]
