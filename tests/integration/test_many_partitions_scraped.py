"""A broker with 5,000 partitions: its metrics come in a second, and the loop is never held for 5 ms (OPS-2).

How long the loop is held is measured in processor time of its thread: what other programs of the machine take is
not the broker's.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.in_process import BrokerThread, broker_thread

import ottla
import ottla.blocking
from ottla.localcluster.waiting import wait_until
from ottla.runtime.unsynced_disk import UnsyncedDisk

pytestmark = pytest.mark.alone  # measures time

PARTITIONS = 5_000
TOPICS = 10
# In a process of its own: a client in this one would take turns with the loop.
SCRAPE = """
import sys, time, urllib.request
begun = time.monotonic()
text = urllib.request.urlopen(sys.argv[1], timeout=60).read()
print(time.monotonic() - begun, text.count(b"kafka_topic_partition_current_offset{"))
"""


class HeldTimes:
    """The processor time that each turn of the loop takes, from `with` to its end."""

    def __init__(self, broker: BrokerThread) -> None:
        self._broker = broker
        self._is_done = threading.Event()
        self.longest_s = 0.0

    def __enter__(self) -> HeldTimes:
        self._watching = self._broker.call(self._begin)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        wait_until(self._watching.done, "the last turn is over", 20.0)

    def _begin(self) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        last = time.thread_time()
        while not self._is_done.is_set():
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest_s = max(self.longest_s, now - last)
            last = now


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    data: Path = tmp_path_factory.mktemp("many") / "data"
    settings = {"ottla.http.listener": "127.0.0.1:0"}
    with broker_thread(data, settings, UnsyncedDisk()) as started:
        with ottla.blocking.Admin(f"127.0.0.1:{started.port}") as admin:
            for number in range(TOPICS):
                admin.create_topics([ottla.NewTopic(f"t{number}", partitions=PARTITIONS // TOPICS)])
        yield started


def scraped(broker: BrokerThread, path: str) -> tuple[float, int]:
    url = f"http://127.0.0.1:{broker.broker.http_port}{path}"
    done = subprocess.run(
        [sys.executable, "-c", SCRAPE, url], capture_output=True, text=True, check=True, timeout=90
    )
    seconds, partitions = done.stdout.split()
    return float(seconds), int(partitions)


def test_metrics_of_5000_partitions_take_a_second_and_hold_nobody_up(broker: BrokerThread) -> None:
    times = []
    with HeldTimes(broker) as held:
        for _ in range(3):
            seconds, partitions = scraped(broker, "/metrics")
            assert partitions == PARTITIONS
            times.append(seconds)
    assert min(times) < 1.0
    assert held.longest_s < 0.005


def test_health_and_state_of_5000_partitions_hold_nobody_up(broker: BrokerThread) -> None:
    with HeldTimes(broker) as held:
        assert scraped(broker, "/health/cluster")[0] < 10.0
        assert scraped(broker, "/debug/state")[0] < 10.0
    assert held.longest_s < 0.005
