"""Who notices that writes are interrupted: a client that never pauses, and librdkafka as it comes.

`RawWriter` writes one record at a time with acks=all, and when that fails it asks the other brokers who
leads, again and again, at once: what it measures is the cluster's time. `LibrdkafkaWriter` has the client's
own pauses in it: what users see.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from bench import messages, wire
from bench.failover_targets import Cluster
from confluent_kafka import Producer

_AGAIN_S: Final = 0.002
_LOOK_S: Final = 0.002
# A leader that died with its machine would not answer at all; one whose process died hangs up.
_ANSWER_S: Final = 2.0


class RawWriter:
    """Writes to one partition until the end of the block; `acknowledged` has the times."""

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        self._cluster, self._topic, self._partition = cluster, topic, partition
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: list[float] = []

    def __enter__(self) -> RawWriter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        leader = -1
        while not self._stopping.is_set():
            with contextlib.suppress(OSError):
                leader = self._find_leader(avoided=leader)
                with wire.connect(self._cluster.ports[leader]) as connection:
                    connection.settimeout(_ANSWER_S)
                    while not self._stopping.is_set() and self._write(connection):
                        self.acknowledged.append(time.monotonic())
            time.sleep(_AGAIN_S)

    def _write(self, connection: socket.socket) -> bool:
        return bool(messages.write_record(connection, self._topic, [self._partition]))

    def _find_leader(self, avoided: int) -> int:
        """By the newest word of all who answer; the last leader is asked last, it may know least."""
        newest = (-1, -1)
        for node_id in sorted(self._cluster.ports, key=lambda each: each == avoided):
            with contextlib.suppress(OSError):
                for each in self._cluster.topic_at(node_id, self._topic).partitions:
                    if each.partition_index == self._partition:
                        newest = max(newest, (each.leader_epoch, each.leader_id))
        if newest[1] < 0:
            raise ConnectionError("nobody knows a leader")
        return newest[1]


class LibrdkafkaWriter:
    """Writes to one partition every few milliseconds until the end of the block."""

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        self._topic, self._partition = topic, partition
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: list[float] = []

    def __enter__(self) -> LibrdkafkaWriter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.flush(30)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._producer.produce(
                self._topic, b"x" * 100, partition=self._partition, on_delivery=self._on_delivery
            )
            self._producer.poll(0.005)

    def _on_delivery(self, error: object, _: object) -> None:
        if error is None:
            self.acknowledged.append(time.monotonic())


def longest_gap_s(times: Iterable[float], since: float, until: float) -> float:
    """The longest time without an acknowledgement that ended after one moment and began before another."""
    gaps = (after - before for before, after in pairwise(sorted(times)) if after > since and before < until)
    return max(gaps, default=0.0)


def write_everywhere(cluster: Cluster, topic: str, partitions: set[int]) -> list[float]:
    """Write once to each of many partitions as soon as it has a leader that takes it; answers when each was
    taken.
    """
    taken: list[float] = []
    left = set(partitions)
    while left:
        with contextlib.suppress(OSError, AssertionError):
            leaders: dict[int, list[int]] = {}
            for each in cluster.topic(topic).partitions:
                if each.partition_index in left and each.leader_id in cluster.ports:
                    leaders.setdefault(each.leader_id, []).append(each.partition_index)
            for leader, led in leaders.items():
                with contextlib.suppress(OSError), wire.connect(cluster.ports[leader]) as connection:
                    done = messages.write_record(connection, topic, led)
                    left -= done
                    taken += [time.monotonic()] * len(done)
        time.sleep(_LOOK_S)
    return taken
