"""A task of the sink, on an executor: Arrow rows in; records in the topics and a commit message out.

Rules
- One idempotent producer for a task. The commit message is made when every record of the task is
  acknowledged. For exactly-once delivery see `exactly_once`.
- Small batches of Arrow are put together, large ones are cut: encoding pays from some thousand rows on, and
  must not take all memory.
- Rows of a task stay in their order on each partition.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from time import time
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.blocking import Producer
from ottla.client.producer.machine.batch import Fields, RecordBlock
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.spark.runtime.worker_heap import freeze_what_is_loaded
from ottla.spark.sink.columns import SinkColumns
from ottla.spark.sink.encoding import Block, Rows, encode, encode_headers, lengths
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.placing import Placing

# Some thousand rows of the usual size: enough for blocks of many records on each of some dozen partitions.
CHUNK_BYTES: Final = 4 << 20
# A block is one batch on the wire. It fits into a request, with room for the batch's header.
_BLOCK_BYTES: Final = 512 << 10
_HEADER_ROOM_BYTES: Final = 256
# The producer's defaults.
_REQUEST_BYTES: Final = 1 << 20
_BUFFER_BYTES: Final = 32 << 20


class NullTopicError(ValueError):
    """A row says no topic, and no option does."""


class TaskWriter:
    """Writes the rows of one task. Use `write`."""

    def __init__(self, producer: Producer, options: SinkOptions, columns: SinkColumns) -> None:
        self._producer = producer
        self._topic = options.topic
        self._columns = columns
        self._block_bytes = _block_bytes(options.producer)
        self._placings: dict[str, Placing] = {}
        self.written: Counter[TopicPartition] = Counter()

    def write(self, batch: pa.RecordBatch) -> None:
        """Send all rows of a batch; those of one topic after those of another."""
        topics = self._columns.topics(batch)
        if self._topic is not None or topics is None:
            assert self._topic is not None
            self._send(self._topic, batch)
            return
        if topics.null_count:
            raise NullTopicError(
                "null topic present in the data. Use the topic option for setting a default topic."
            )
        names = topics.dictionary_encode()
        which = names.indices.to_numpy(zero_copy_only=False)
        for index, name in enumerate(names.dictionary.to_pylist()):
            mine = (
                batch if len(names.dictionary) == 1 else batch.take(pa.array(np.flatnonzero(which == index)))
            )
            self._send(name, mine)

    def _send(self, topic: str, batch: pa.RecordBatch) -> None:
        columns = self._columns
        lists = columns.header_lists(batch)
        headers = None if lists is None else encode_headers(lists)
        rows = Rows(columns.values(batch), columns.keys(batch), headers, lists)
        places = self._placing(topic).place(
            columns.partitions(batch), rows.key, _sizes(rows), self._block_bytes
        )
        if (np.diff(places) < 0).any():
            order = np.argsort(places, kind="stable")
            rows, places = rows.take(order), places[order]
        timestamp_ms = int(time() * 1000)
        for block in encode(rows, places, self._block_bytes):
            self._deliver(topic, rows, block, timestamp_ms)

    def _deliver(self, topic: str, rows: Rows, block: Block, timestamp_ms: int) -> None:
        count = block.end - block.start
        fields = partial(_fields_of, rows, block.start)
        self._producer.drain()
        self._producer.send_block(
            RecordBlock(topic, block.partition, count, timestamp_ms, block.encoded, fields)
        )
        self.written[TopicPartition(topic, block.partition)] += count

    def _placing(self, topic: str) -> Placing:
        placing = self._placings.get(topic)
        if placing is None:
            count = self._partitions_count(topic)
            placing = self._placings[topic] = Placing(topic, count, first=random.randrange(count))
        return placing

    def _partitions_count(self, topic: str) -> int:
        try:
            return self._producer.partitions_for(topic)
        except KafkaError as error:
            raise KafkaError(error.code, f'topic "{topic}" cannot be written to: {error.message}') from None


def write_task(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, columns: SinkColumns
) -> Counter[TopicPartition]:
    """Write all rows; how many records of which partition, when the brokers have them. Raises what kept one
    of them from being delivered.
    """
    freeze_what_is_loaded()
    with Producer(options.bootstrap_servers, **producer_arguments(options)) as producer:
        writer = TaskWriter(producer, options, columns)
        for chunk in chunks(batches):
            writer.write(chunk)
        producer.flush()
    return writer.written


def chunks(batches: Iterable[pa.RecordBatch], size_bytes: int = CHUNK_BYTES) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of about this size."""
    gathered: list[pa.RecordBatch] = []
    gathered_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        for piece in _cut(batch, size_bytes):
            gathered.append(piece)
            gathered_bytes += piece.nbytes
            if gathered_bytes >= size_bytes:
                yield _joined(gathered)
                gathered, gathered_bytes = [], 0
    if gathered:
        yield _joined(gathered)


def _cut(batch: pa.RecordBatch, size_bytes: int) -> Iterator[pa.RecordBatch]:
    pieces = batch.nbytes // (2 * size_bytes) + 1
    rows = -(-batch.num_rows // pieces)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _sizes(rows: Rows) -> Any:
    sizes = np.maximum(lengths(rows.value), 0)
    return sizes if rows.key is None else sizes + np.maximum(lengths(rows.key), 0)


def _fields_of(rows: Rows, start: int, index: int) -> Fields:
    return rows.fields(start + index)


def _block_bytes(producer: Mapping[str, Any]) -> int:
    """The user's settings for batches and requests hold for blocks."""
    batch_bytes: int = producer.get("batch_size", _BLOCK_BYTES)
    request_bytes: int = producer.get("max_request_size", _REQUEST_BYTES)
    buffer_bytes: int = producer.get("buffer_memory", _BUFFER_BYTES)
    return max(1, min(batch_bytes, request_bytes - _HEADER_ROOM_BYTES, buffer_bytes // 4))


def producer_arguments(options: SinkOptions) -> dict[str, Any]:
    """The arguments of a task's producer."""
    return {"client_id": "ottla-spark-sink", **options.producer}
