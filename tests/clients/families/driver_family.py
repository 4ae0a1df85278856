"""Clients of other languages, each behind a small program that answers one line of JSON per question.

The program runs for the whole test session (a JVM costs seconds to start) and speaks in
`tests/clients/model.py`'s words: bytes as base64, null as null, `{"ok": …}` or `{"refused": CODE}` or
`{"failed": text}`.
"""

from __future__ import annotations

import base64
import json
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.clients.model import (
    DEADLINE_SECONDS,
    Acks,
    AtTime,
    Cluster,
    Codec,
    ConfigValue,
    Message,
    OffsetSpec,
    Receipt,
    Received,
    RefusedError,
    Start,
)


def _encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _place(place: Start | OffsetSpec) -> object:
    return {"timestamp_ms": place.timestamp_ms} if isinstance(place, AtTime) else place


class Driver:
    """The program behind the questions: one at a time, each with a deadline."""

    def __init__(self, command: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=cwd, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, question: Mapping[str, Any]) -> Any:
        source, sink = self._pipes()
        sink.write(json.dumps(question) + "\n")
        sink.flush()
        ready, _, _ = select.select([source], [], [], 2 * DEADLINE_SECONDS)
        line = source.readline() if ready else ""
        if not line:
            raise AssertionError(f"no answer to {question['op']} (the program ended or hangs)")
        answer = json.loads(line)
        if "refused" in answer:
            raise RefusedError(answer["refused"], answer["message"])
        if "failed" in answer:
            raise AssertionError(answer["failed"])
        return answer["ok"]

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, what: signal.Signals) -> None:
        self._process.send_signal(what)

    def kill(self) -> None:
        """Kill the program and all that runs in it, as a crash does."""
        self._process.kill()
        self._process.wait()
        for pipe in self._pipes():
            pipe.close()

    def close(self) -> None:
        source, sink = self._pipes()
        if source.closed:
            return
        sink.close()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        self._process.kill()
        self._process.wait()
        source.close()

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        return self._process.stdout, self._process.stdin


class DriverClient:
    def __init__(self, driver: Driver, bootstrap: str) -> None:
        self._driver = driver
        self._bootstrap = bootstrap

    def _ask(self, op: str, **arguments: object) -> Any:
        return self._driver.ask({"op": op, "bootstrap": self._bootstrap, **arguments})

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int | None = 0,
        codec: Codec = "none",
        acks: Acks = "all",
        idempotent: bool = False,
    ) -> list[Receipt]:
        written = [
            {
                "key": _encoded(message.key),
                "value": _encoded(message.value),
                "headers": [[name, _encoded(value)] for name, value in message.headers],
                "timestamp_ms": message.timestamp_ms,
            }
            for message in messages
        ]
        choices = {"partition": partition, "codec": codec, "acks": acks, "idempotent": idempotent}
        answer = self._ask("produce", topic=topic, messages=written, **choices)
        return [Receipt(receipt["partition"], receipt["offset"]) for receipt in answer]

    def consume(
        self, topic: str, count: int, *, partition: int = 0, start: Start = "earliest"
    ) -> list[Received]:
        answer = self._ask("consume", topic=topic, partition=partition, start=_place(start), count=count)
        return [
            Received(
                record["partition"],
                record["offset"],
                record["timestamp_ms"],
                _decoded(record["key"]),
                _decoded(record["value"]),
                tuple((name, _decoded(value)) for name, value in record["headers"]),
            )
            for record in answer
        ]

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replication: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        shape = {"partitions": partitions, "replication": replication, "configs": dict(configs or {})}
        self._ask("create_topic", topic=topic, **shape)

    def delete_topic(self, topic: str) -> None:
        self._ask("delete_topic", topic=topic)

    def describe_topic(self, topic: str) -> dict[int, int]:
        return dict(self._ask("describe_topic", topic=topic))

    def add_partitions(self, topic: str, total: int) -> None:
        self._ask("add_partitions", topic=topic, total=total)

    def describe_configs(self, topic: str) -> dict[str, ConfigValue]:
        answer = self._ask("describe_configs", topic=topic)
        return {name: ConfigValue(value, source) for name, value, source in answer}

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        self._ask("alter_configs", topic=topic, configs=dict(configs))

    def incremental_alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        self._ask("incremental_alter_configs", topic=topic, configs=dict(configs))

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        return int(self._ask("delete_records", topic=topic, partition=partition, before_offset=before_offset))

    def list_offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        return int(self._ask("list_offset", topic=topic, partition=partition, spec=_place(spec)))

    def describe_cluster(self) -> Cluster:
        answer = self._ask("describe_cluster")
        nodes = {node: (host, port) for node, host, port in answer["nodes"]}
        return Cluster(answer["cluster_id"], answer["controller_id"], nodes)

    def log_dirs(self, topic: str) -> dict[int, int]:
        return dict(self._ask("log_dirs", topic=topic))

    def close(self) -> None:
        pass
