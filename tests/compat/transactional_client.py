"""Transactional producers of other languages, and their readers of committed records, as objects of a test.

They live in the programs of `foreign_clients`; a call that fails raises RefusedError with Kafka's name of the
error.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from tests.clients.families.driver_family import Driver

Isolation = Literal["read_committed", "read_uncommitted"]
COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"


class TransactionalClient:
    """A program, pointed at one broker."""

    def __init__(self, driver: Driver, bootstrap: str) -> None:
        self._driver = driver
        self._bootstrap = bootstrap

    def ask(self, op: str, **question: object) -> Any:
        return self._driver.ask({"op": op, "bootstrap": self._bootstrap, **question})

    def create_topic(self, name: str, partitions: int) -> None:
        self.ask("create_topic", topic=name, partitions=partitions, replication=1, configs={})

    def producer(self, name: str, transactional_id: str) -> ForeignProducer:
        """A producer that has fenced those before it; `name` tells it from others with the same transactional id."""
        self.ask("open_producer", producer=name, transactional_id=transactional_id)
        return ForeignProducer(self, name)

    def epoch(self, transactional_id: str) -> int:
        """The epoch of the next transaction, as the coordinator describes it."""
        epoch: int = self.ask("transaction", transactional_id=transactional_id)["epoch"]
        return epoch

    def stable_offset(self, group: str, topic: str, partition: int, **patience: int) -> int | None:
        offset: int | None = self.ask(
            "stable_offset", group=group, topic=topic, partition=partition, **patience
        )
        return offset

    def read(self, topic: str, isolation: Isolation = COMMITTED) -> list[list[tuple[str | None, str]]]:
        """Keys and values of each partition, up to the end as this isolation level has it."""
        found = self.ask("read_to_the_end", topic=topic, isolation=isolation)
        return [[(key, value) for key, value in found[index]] for index in sorted(found, key=int)]

    def values(self, topic: str, isolation: Isolation = COMMITTED) -> list[str]:
        return [value for partition in self.read(topic, isolation) for _, value in partition]

    def copy_exactly_once(
        self, topic: str, to: str, count: int, *, group: str, transactional_id: str
    ) -> None:
        """Copy records to another topic in transactions with their offsets, until this many are committed."""
        question = {"topic": topic, "to": to, "count": count, "group": group}
        self.ask("copy_exactly_once", transactional_id=transactional_id, **question)

    def end(self, topic: str, isolation: Isolation) -> int:
        """The sum of the partitions' end offsets."""
        total: int = self.ask("ends", topic=topic, isolation=isolation)
        return total


class ForeignProducer:
    """One transactional producer."""

    def __init__(self, client: TransactionalClient, name: str) -> None:
        self._client = client
        self._name = name

    def begin(self) -> None:
        self._client.ask("begin_transaction", producer=self._name)

    def send(self, topic: str, value: str, partition: int = 0) -> int:
        """The offset at which the record was appended."""
        offset: int = self._client.ask(
            "send_in_transaction", producer=self._name, topic=topic, partition=partition, value=value
        )
        return offset

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        where = {"group": group, "topic": topic, "partition": partition, "offset": offset}
        self._client.ask("send_offset", producer=self._name, **where)

    def commit(self) -> None:
        self._client.ask("commit_transaction", producer=self._name)

    def abort(self) -> None:
        self._client.ask("abort_transaction", producer=self._name)

    def close(self) -> None:
        self._client.ask("close_producer", producer=self._name)
