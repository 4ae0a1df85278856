"""The console in front of a cluster with 2,000 topics and 10,000 partitions, in a real browser (GTW-5).

What the gateway needs is measured in processor time and memory of its process: what other programs of the machine
take is not the gateway's.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from bench.processes import cpu_seconds, memory_mebibytes
from playwright.sync_api import expect
from tests.compat.console_browser import Looker, browser, looking
from tests.integration.in_process import broker_thread

import ottla
import ottla.blocking
from ottla.runtime.unsynced_disk import UnsyncedDisk

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

TOPICS, PARTITIONS, AT_ONCE = 2_000, 5, 100
FIRST_PAGE_S = 1.0
GATEWAY_MIB, TAB_MIB = 120, 64
TAB_NODES = 3_000


class Door(NamedTuple):
    """A gateway's process."""

    pid: int
    port: int


@contextmanager
def gateway(bootstrap: str) -> Iterator[Door]:
    command = [sys.executable, "-m", "ottla.cli.main", "gateway", "--bootstrap", bootstrap]
    command += ["--listen", "localhost:0", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://localhost:(\d+)", process.stdout.readline())
            assert found is not None
            yield Door(process.pid, int(found[1]))
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with all the topics."""
    with broker_thread(tmp_path_factory.mktemp("large") / "data", {}, UnsyncedDisk()) as broker:
        address = f"127.0.0.1:{broker.port}"
        with ottla.blocking.Admin(address) as admin:
            for first in range(0, TOPICS, AT_ONCE):
                names = [f"topic-{number:04}" for number in range(first, first + AT_ONCE)]
                ottla.succeeded(
                    admin.create_topics([ottla.NewTopic(name, partitions=PARTITIONS) for name in names])
                )
        yield address


def tab_mib(looker: Looker) -> float:
    """The memory of the page's own objects, without garbage."""
    session = looker.page.context.new_cdp_session(looker.page)
    session.send("HeapProfiler.collectGarbage")
    used = looker.page.evaluate("performance.memory.usedJSHeapSize")
    return float(used) / (1 << 20)


def test_the_first_page_of_2000_topics_takes_less_than_a_second(bootstrap: str) -> None:
    with browser() as chromium, gateway(bootstrap) as door, looking(chromium, door.port) as looker:
        before = cpu_seconds(door.pid)
        looker.open("topics")
        looker.see("1\u201350 of 2,000 topics")
        first_page_s = cpu_seconds(door.pid) - before
        # Figures of what is shown come after it, and home asks the doctor about all of them.
        for _ in range(5):
            looker.button("Next").click()
        looker.see("251\u2013300 of 2,000 topics")
        looker.page.get_by_label("Search topics").fill("topic-1999")
        expect(looker.page.get_by_role("link", name="topic-1999")).to_be_visible()
        looker.page.get_by_role("link", name="topic-1999").click()
        looker.title("topic-1999")
        for place, title in (("brokers", "Brokers"), ("groups", "Groups"), ("", "Home")):
            looker.go(place)
            looker.title(title)
        looker.see("All is well.")
        nodes = looker.page.evaluate("document.querySelectorAll('*').length")
        memory_mib, tab = memory_mebibytes(door.pid)[0], tab_mib(looker)
    print(
        f"{first_page_s:.2f} s of the gateway, {memory_mib:.0f} MiB; {tab:.1f} MiB and {nodes} nodes in the tab"
    )
    assert first_page_s < FIRST_PAGE_S
    assert memory_mib < GATEWAY_MIB
    assert tab < TAB_MIB
    assert nodes < TAB_NODES
