"""Requests as declared messages over a blocking socket, for what a benchmark prepares, looks up or asks one
at a time.

Load is made of prebuilt bytes instead (`wire`).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bench import wire

from ottla.errors import ErrorCode
from ottla.protocol.declaration import declaration_of
from ottla.protocol.frame import RequestHeader, read_response, write_request
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.records.builder import build_batch
from ottla.records.record import Record

PRODUCE_VERSION: Final = 9
CREATE_TOPICS_VERSION: Final = 7
_VALUE: Final = b"x" * 100
_CORRELATION_ID: Final = 7


def ask(connection: socket.socket, version: int, request: object) -> Any:
    """Send a request and wait for its response."""
    key = declaration_of(type(request)).key
    out = bytearray()
    write_request(RequestHeader(key, version, _CORRELATION_ID, wire.CLIENT_ID), request, out)
    connection.sendall(out)
    (size,) = wire.I32.unpack(wire.receive(connection, 4))
    answered, response = read_response(key, version, memoryview(wire.receive(connection, size)))
    assert answered == _CORRELATION_ID, f"asked {_CORRELATION_ID}, was answered {answered}"
    return response


def create_topic(
    connection: socket.socket,
    name: str,
    partitions: int = 1,
    *,
    replication_factor: int = 1,
    settings: Mapping[str, object] | None = None,
) -> None:
    """Create a topic with settings of its own; AssertionError if the broker refuses."""
    configs = [CreatableTopicConfig(name=each, value=str(value)) for each, value in (settings or {}).items()]
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replication_factor, configs=configs
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    (created,) = ask(connection, CREATE_TOPICS_VERSION, request).topics
    assert created.error_code == 0, f"{created.error_code}: {created.error_message}"


def write_record(
    connection: socket.socket, topic: str, partitions: Iterable[int], *, timeout_ms: int = 1_500
) -> set[int]:
    """Write one record of 100 bytes to each partition with acks=all; returns the partitions that took it."""
    data = [PartitionProduceData(index=each, records=memoryview(_one_record())) for each in partitions]
    wanted = TopicProduceData(name=topic, partition_data=data)
    request = ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[wanted])
    answer = ask(connection, PRODUCE_VERSION, request)
    return {
        each.index for each in answer.responses[0].partition_responses if each.error_code == ErrorCode.NONE
    }


def _one_record() -> bytearray:
    return build_batch([Record(0, time.time_ns() // 1_000_000, b"k", _VALUE)])
