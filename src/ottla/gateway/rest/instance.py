"""One consumer instance: a consumer, the records that it has read, and the offsets that are done.

Requests of one instance are carried out one after the other. The consumer commits nothing by itself: what is done is
for the caller to say, by its next request for records or by a commit (see `records.machine.handover`).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.client.consumer.consumer import Consumer, ConsumerRecord
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.offsets import OffsetSpec
from ottla.errors import KafkaError
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.records.machine.embedded import from_bytes
from ottla.gateway.records.machine.handover import Handover
from ottla.gateway.records.machine.produced import INVALID_DATA
from ottla.gateway.rest.machine.consumer_bodies import CONFLICT, InstanceFormat, InstanceSettings
from ottla.gateway.schema_values.decoding import ValueDecoder
from ottla.gateway.schema_values.machine.formats import TYPES, SchemaFormat
from ottla.gateway.subscriptions.machine.open_records import OpenRecords
from ottla.model import TopicPartition
from ottla.runtime.clock import monotonic_ms

logger = logging.getLogger(__name__)

_COMMIT_INTERVAL_MS: Final = 5_000
_MOST_RECORDS: Final = 500
# How long a request that names partitions waits for the group to assign some, and how often it looks.
_JOIN_MS: Final = 10_000
_JOIN_STEP_MS: Final = 50
UNSUPPORTED_FORMAT: Final = 40601
_WORDS: Final = {
    "json": "JSON",
    "avro": "Avro of this registry",
    "jsonschema": "JSON Schema of this registry",
    "protobuf": "Protobuf of this registry",
    "binary": "binary",
}


class ConsumerInstance:
    """The consumer behind one instance of REST v2."""

    def __init__(
        self, group: str, name: str, consumer: Consumer, settings: InstanceSettings, decoder: ValueDecoder
    ) -> None:
        self.group = group
        self.name = name
        self.form: InstanceFormat = settings.form
        self._decoder = decoder
        self.wait_ms = settings.wait_ms
        self._commits = settings.commits
        self._consumer = consumer
        self._handover = Handover()
        self._acknowledging = OpenRecords(is_used=settings.acknowledges)
        self._has_subscribed = False
        self._turn = asyncio.Lock()
        self._committed_ms = monotonic_ms()

    async def open(self) -> None:
        """Connect. Raises ConnectionError and KafkaError."""
        await self._consumer.__aenter__()

    async def close(self, *, is_done: bool) -> None:
        """Commit (if commits are automatic) and leave the group.

        `is_done`: the caller itself ends the instance, and so is done with all records that it got.
        """
        if is_done:
            self._handover.confirm()
        try:
            if self._commits and self._consumer.is_open:
                await self._commit_done()
        except (KafkaError, ConnectionError, TimeoutError, ValueError) as error:
            logger.warning(
                "instance %s of group %s: offsets were not committed: %s", self.name, self.group, error
            )
        try:
            await self._consumer.close()
        except (KafkaError, ConnectionError, TimeoutError) as error:
            logger.warning(
                "instance %s of group %s did not leave its group: %s", self.name, self.group, error
            )

    # ---- topics and partitions

    async def subscribe(self, topics: list[str] | re.Pattern[str]) -> None:
        """Raises HttpError(409) if partitions were assigned."""
        async with self._turn:
            try:
                self._consumer.subscribe(topics, on_revoked=self._revoked, on_lost=self._lost)
            except ValueError as error:
                raise HttpError(409, str(error), error_code=CONFLICT) from error
            self._has_subscribed = True

    async def assign(self, partitions: list[TopicPartition]) -> None:
        """Raises HttpError(409) if topics were subscribed to."""
        async with self._turn:
            gone = self._consumer.assignment.difference(partitions)
            try:
                self._consumer.assign(partitions)
            except ValueError as error:
                raise HttpError(409, str(error), error_code=CONFLICT) from error
            self._handover.drop(gone)

    async def unsubscribe(self) -> None:
        async with self._turn:
            if self._commits:
                self._handover.confirm()
                await self._commit_done()
            await self._consumer.unsubscribe()
            self._has_subscribed = False
            self._handover = Handover()
            self._acknowledging.drop_all()

    @property
    def topics(self) -> list[str]:
        return sorted(self._consumer.subscription)

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted(self._consumer.assignment)

    # ---- records

    async def records(self, wait_ms: int, max_bytes: int) -> list[dict[str, Any]]:
        """The next records, in the instance's format. Raises HttpError(422) for one that is not in it."""
        async with self._turn:
            self._handover.confirm()
            await self._commit_now_and_then()
            self._acknowledging.check_room()
            before = self._handover.handed
            if not self._handover.has_waiting:
                await self._read(wait_ms, max_bytes)
            taken = self._handover.hand_out(max_bytes)
            try:
                if self.form in TYPES:
                    await self._decoder.prepare(taken)
                shown = [self._shown(record) for record in taken]
                self._acknowledging.sent(taken)
                return shown
            except (HttpError, KafkaError, OSError):
                self._handover.take_back(taken, before)
                raise

    async def _read(self, wait_ms: int, max_bytes: int) -> None:
        """Wait for records, then take those that are there already, up to `max_bytes`."""
        deadline_ms = monotonic_ms() + wait_ms
        size_bytes = 0
        found = await self._consumer.poll(max_records=_MOST_RECORDS, timeout_ms=wait_ms)
        while found:
            self._handover.read(found)
            size_bytes += sum(len(each.key or b"") + len(each.value or b"") for each in found)
            if size_bytes >= max_bytes or monotonic_ms() >= deadline_ms:
                return
            found = await self._consumer.poll(max_records=_MOST_RECORDS, timeout_ms=0)

    def _shown(self, record: ConsumerRecord) -> dict[str, Any]:
        return {
            "topic": record.topic,
            "key": self._part("key", record.key, record),
            "value": self._part("value", record.value, record),
            "partition": record.partition,
            "offset": record.offset,
        }

    def _part(self, name: str, data: bytes | None, record: ConsumerRecord) -> Any:
        try:
            if self.form == "json" or self.form == "binary":
                return from_bytes(self.form, data)
            return self._by_schema(self.form, name, data, record)
        except ValueError as error:
            place = f"offset {record.offset} of {record.topic}-{record.partition}"
            raise HttpError(
                422,
                f"the {name} of the record at {place} is not {_WORDS[self.form]}: {error}. Read it by an instance of format binary,"
                f" or go on behind it: POST .../positions with offset {record.offset + 1}",
                error_code=INVALID_DATA,
            ) from error

    def _by_schema(self, form: SchemaFormat, name: str, data: bytes | None, record: ConsumerRecord) -> Any:
        found = self._decoder.part(name, data, record)
        if found.problem is not None:
            raise ValueError(found.problem)
        if data is not None and found.schema_type != TYPES[form]:
            raise ValueError(f"its schema {found.schema_id} is of type {found.schema_type}")
        return found.value

    # ---- offsets

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset] | None) -> None:
        """Commit offsets; without any, those after all records that the caller got."""
        async with self._turn:
            self._handover.confirm()
            await self._consumer.commit(self._handover.done if offsets is None else offsets)

    async def acknowledge(self, records: list[tuple[TopicPartition, int]], *, up_to: bool) -> None:
        """Records are done, in any order: commits up to the first that is not. Raises HttpError(409 or 422)."""
        if not self._acknowledging.is_used:
            words = "this instance takes no acknowledgements: create it with ottla.acknowledgements=true"
            raise HttpError(409, words, error_code=CONFLICT)
        async with self._turn:
            for place, offset in records:
                self._acknowledging.acknowledge(place, offset, up_to=up_to)
            if done := self._acknowledging.to_commit():
                await self._consumer.commit(done)
                self._acknowledging.committed(done)

    async def committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        async with self._turn:
            return await self._consumer.committed(partitions)

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Raises HttpError(404) for a partition that is not assigned."""
        async with self._turn:
            await self._needs(list(positions))
            for partition, offset in positions.items():
                self._consumer.seek(partition, offset)
                self._move(partition)

    async def seek_to(self, end: OffsetSpec, partitions: list[TopicPartition]) -> None:
        """Raises HttpError(404) for a partition that is not assigned."""
        async with self._turn:
            await self._needs(partitions)
            await self._consumer.seek_to(end, partitions)
            for partition in partitions:
                self._move(partition)

    async def _needs(self, partitions: list[TopicPartition]) -> None:
        """A subscription gets its partitions while records are asked for: let it, before refusing one."""
        deadline_ms = monotonic_ms() + _JOIN_MS
        while self._has_subscribed and not self._consumer.assignment and monotonic_ms() < deadline_ms:
            await self._consumer.poll(max_records=0, timeout_ms=_JOIN_STEP_MS)
        for partition in partitions:
            if partition not in self._consumer.assignment:
                raise HttpError(404, f"{partition} is not assigned to this instance", error_code=40402)

    async def _commit_now_and_then(self) -> None:
        if self._commits and monotonic_ms() - self._committed_ms >= _COMMIT_INTERVAL_MS:
            await self._commit_done()

    async def _commit_done(self) -> None:
        self._committed_ms = monotonic_ms()
        if done := self._handover.done:
            await self._consumer.commit(done)

    async def _revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """A rebalance takes partitions: what is done with is committed before another member reads on."""
        if self._commits:
            done = {each: offset for each, offset in self._handover.done.items() if each in partitions}
            if done:
                await self._consumer.commit(done)
        self._lost(partitions)

    def _lost(self, partitions: frozenset[TopicPartition]) -> None:
        self._handover.drop(partitions)
        self._acknowledging.drop(partitions)

    def _move(self, partition: TopicPartition) -> None:
        self._handover.move(partition)
        self._acknowledging.drop((partition,))
