"""Answers leave in the order of their requests, whatever waits; what cannot be answered closes (WIRE-2,
WIRE-3).
"""

import logging
import random
import struct
import time
from typing import Any

import pytest
from tests.integration.in_process import BrokerThread
from tests.integration.peer import (
    Peer,
    batch,
    create_topic,
    fetch_request,
    list_offset,
    produce_request,
    read_all,
    took_s,
)

from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.codec import decode
from ottla.protocol.frame import read_response
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.producer_ids import InitProducerIdRequest

Request = tuple[ApiKey, int, Any]

METADATA: Request = (ApiKey.METADATA, 9, MetadataRequest(topics=[]))
WAIT_MS = 150


def ask_all(peer: Peer, requests: list[Request]) -> list[Any]:
    """Send all requests in one piece, then take the answers, which must come in exactly that order."""
    data, asked = b"", []
    for key, version, request in requests:
        data += peer.frame(key, version, request)
        asked.append(peer.correlation_id)
    peer.socket.sendall(data)
    answers = []
    for (key, version, _), correlation_id in zip(requests, asked, strict=True):
        answered_id, answer = read_response(key, version, memoryview(peer.receive_frame()))
        assert answered_id == correlation_id, f"{key.name}: {answered_id} came where {correlation_id} was due"
        answers.append(answer)
    return answers


def produce_to(topic: str, value: bytes = b"v", *, acks: int = 1, version: int = 9) -> Request:
    return ApiKey.PRODUCE, version, produce_request(topic, batch(value), acks=acks)


def long_poll(topic: str, wait_ms: int = WAIT_MS) -> Request:
    """A fetch that waits for more than will come."""
    return ApiKey.FETCH, 12, fetch_request((topic, 0, 0), max_wait_ms=wait_ms, min_bytes=1 << 30)


def offsets(answers: list[Any]) -> list[int]:
    return [answer.responses[0].partition_responses[0].base_offset for answer in answers]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_hundreds_of_mixed_pipelined_requests_are_answered_in_their_order(
    peer: Peer, topic: str, seed: int
) -> None:
    synced = f"{topic}-synced"
    create_topic(peer, topic)
    create_topic(peer, synced, flush_messages=1)
    rng = random.Random(seed)
    kinds: list[Request] = [
        METADATA,
        (ApiKey.API_VERSIONS, 0, ApiVersionsRequest()),
        (ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None)),
        (ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=-1)),
        (ApiKey.FETCH, 12, fetch_request((topic, 0, 0), max_bytes=1)),
    ]
    requests = [
        rng.choice([*kinds, produce_to(topic, b"%d" % n), produce_to(synced, b"%d" % n, acks=-1)])
        for n in range(400)
    ]
    requests[rng.randrange(400)] = long_poll(topic)
    requests[rng.randrange(400)] = long_poll(synced)
    answers = ask_all(peer, requests)
    for name in (topic, synced):
        mine = [
            (request, answer)
            for (key, _, request), answer in zip(requests, answers, strict=True)
            if key == ApiKey.PRODUCE and request.topic_data[0].name == name
        ]
        assert offsets([answer for _, answer in mine]) == list(range(len(mine)))
        assert len(read_all(peer, name)) == len(mine)


@pytest.mark.alone
def test_a_request_behind_a_long_poll_waits_and_those_of_others_do_not(
    served: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic)
    wait_ms = 800
    with Peer(served.port) as other:

        def both() -> None:
            data = peer.frame(*long_poll(topic, wait_ms)) + peer.frame(*METADATA)
            peer.socket.sendall(data)
            assert took_s(lambda: other.ask(*METADATA)) < wait_ms / 1000
            peer.receive(ApiKey.FETCH, 12)
            peer.receive(ApiKey.METADATA, 9)

        assert took_s(both) >= wait_ms / 1000


def test_produce_requests_that_wait_for_fsync_keep_their_order_among_all_others(
    peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, flush_messages=1)
    requests = [produce_to(topic, b"%d" % n) for n in range(50)]
    requests[10:10] = [METADATA]
    requests[30:30] = [METADATA, METADATA]
    answers = ask_all(peer, [*requests, METADATA])
    assert offsets([answer for answer in answers if hasattr(answer, "responses")]) == list(range(50))


def test_a_frame_that_comes_byte_by_byte_is_answered_like_any_other(peer: Peer, topic: str) -> None:
    create_topic(peer, topic)
    for byte in peer.frame(*produce_to(topic)) + peer.frame(*METADATA):
        peer.socket.sendall(bytes((byte,)))
    assert offsets([peer.receive(ApiKey.PRODUCE, 9)[1]]) == [0]
    assert peer.receive(ApiKey.METADATA, 9)[1].brokers


@pytest.fixture(autouse=True)
def _all_refusals(caplog: pytest.LogCaptureFixture) -> None:
    """The broker of all tests was refused for the same reasons a moment ago: only a log in detail has each time."""
    caplog.set_level(logging.DEBUG, logger="ottla.server.net.refusal_log")


class TestNoAcknowledgement:
    def test_acks_0_has_no_answer_and_is_appended(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        data = b"".join(peer.frame(*produce_to(topic, b"%d" % n, acks=0)) for n in range(5))
        peer.socket.sendall(data)
        peer.ask(*METADATA)
        assert read_all(peer, topic) == [b"0", b"1", b"2", b"3", b"4"]

    @pytest.mark.parametrize("flush_messages", [1, 1000], ids=["with fsync", "without fsync"])
    def test_an_error_with_acks_0_closes_the_connection_with_a_reason(
        self,
        served: BrokerThread,
        peer: Peer,
        topic: str,
        flush_messages: int,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        create_topic(peer, topic, flush_messages=flush_messages)
        with Peer(served.port) as sender:
            good, bad = batch(b"good"), batch(b"bad")
            bad[-1] ^= 1
            data = sender.frame(ApiKey.PRODUCE, 9, produce_request(topic, good, acks=1))
            data += sender.frame(ApiKey.PRODUCE, 9, produce_request(topic, bad, acks=0))
            sender.socket.sendall(data)
            assert offsets([sender.receive(ApiKey.PRODUCE, 9)[1]]) == [0], "what came before it is answered"
            assert sender.is_closed()
        assert f"acks=0 produce to {topic}-0" in caplog.text
        assert list_offset(peer, topic, -1).offset == 1

    def test_acks_0_to_an_unknown_topic_closes_the_connection(
        self, served: BrokerThread, caplog: pytest.LogCaptureFixture
    ) -> None:
        with Peer(served.port) as sender:
            sender.send(*produce_to("nowhere", acks=0))
            assert sender.is_closed()
        assert (
            "acks=0 produce to nowhere-0: UNKNOWN_TOPIC_OR_PARTITION: there is no topic nowhere"
            in caplog.text
        )


class TestUnknownWords:
    @pytest.mark.parametrize(
        ("key", "version", "reason"),
        [
            (0, 0, "PRODUCE version 0 is not served"),
            (0, 2, "PRODUCE version 2 is not served"),
            (0, 14, "PRODUCE version 14 is not served"),
            (1, 3, "FETCH version 3 is not served"),
            (3, 99, "METADATA version 99 is not served"),
            (3, -1, "METADATA version -1 is not served"),
            (18, -1, "API_VERSIONS version -1 is not served"),
            (62, 5, "BROKER_REGISTRATION version 5 is not served"),
            (76, 0, "there is no API with key 76"),
            (999, 0, "there is no API with key 999"),
            (-1, 0, "there is no API with key -1"),
        ],
    )
    def test_an_unserved_api_or_version_closes_the_connection_with_a_reason(
        self,
        served: BrokerThread,
        caplog: pytest.LogCaptureFixture,
        key: int,
        version: int,
        reason: str,
    ) -> None:
        with Peer(served.port) as asking:
            asking.ask(*METADATA)
            body = struct.pack(">hhih", key, version, 7, -1) + bytes(20)
            asking.socket.sendall(struct.pack(">i", len(body)) + body)
            assert asking.is_closed()
        assert reason in caplog.text
        assert "Traceback" not in caplog.text

    def test_what_came_before_an_unserved_request_is_still_answered(
        self, served: BrokerThread, peer: Peer, topic: str
    ) -> None:
        create_topic(peer, topic)
        with Peer(served.port) as asking:
            data = (
                asking.frame(*METADATA) + asking.frame(*produce_to(topic)) + asking.frame(*produce_to(topic))
            )
            body = struct.pack(">hhih", 0, 1, 7, -1) + bytes(20)
            asking.socket.sendall(data + struct.pack(">i", len(body)) + body)
            asking.receive(ApiKey.METADATA, 9)
            answers = [asking.receive(ApiKey.PRODUCE, 9)[1] for _ in range(2)]
            assert offsets(answers) == [0, 1]
            assert asking.is_closed()


class TestApiVersions:
    @pytest.mark.parametrize("version", [5, 6, 100, 32767])
    def test_a_version_too_new_is_answered_in_the_oldest_words_with_error_35(
        self, peer: Peer, version: int
    ) -> None:
        # As KIP-511 has it, the body of an unknown version is not read: here it is no ApiVersions body at
        # all.
        body = struct.pack(">hhih", 18, version, 41, 4) + b"newc" + b"\xff\xfe\xfd"
        peer.socket.sendall(struct.pack(">i", len(body)) + body)
        frame = peer.receive_frame()
        assert struct.unpack_from(">i", frame)[0] == 41
        answer = decode(ApiVersionsResponse, frame[4:], 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        known = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        assert known[ApiKey.API_VERSIONS] == (0, APIS[ApiKey.API_VERSIONS].max_version)
        assert peer.ask(*METADATA).brokers, "the connection goes on"

    @pytest.mark.parametrize("version", [3, 4])
    @pytest.mark.parametrize(
        ("name", "software_version", "error"),
        [
            ("librdkafka", "2.16.1", ErrorCode.NONE),
            ("a", "b", ErrorCode.NONE),
            ("apache-kafka-java", "4.3.0-rc.1", ErrorCode.NONE),
            ("", "1", ErrorCode.INVALID_REQUEST),
            ("client", "", ErrorCode.INVALID_REQUEST),
            ("-client", "1", ErrorCode.INVALID_REQUEST),
            ("client.", "1", ErrorCode.INVALID_REQUEST),
            ("my client", "1", ErrorCode.INVALID_REQUEST),
            ("client\n", "1", ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_a_clients_name_and_version_are_checked(
        self, peer: Peer, version: int, name: str, software_version: str, error: ErrorCode
    ) -> None:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
        assert peer.ask(ApiKey.API_VERSIONS, version, request).error_code == error
        assert peer.ask(*METADATA).brokers, "the connection goes on"

    def test_produce_is_claimed_from_0_on_for_old_librdkafka(self, peer: Peer) -> None:
        answer = peer.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
        ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        assert ranges[ApiKey.PRODUCE] == (0, 13)
        assert not ranges.keys() & {ApiKey.BROKER_REGISTRATION, ApiKey.ALLOCATE_PRODUCER_IDS}


def test_a_client_that_leaves_in_the_middle_of_a_long_poll_is_forgotten(
    served: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic)
    readers = served.partition(topic).waiters.readers
    with Peer(served.port) as leaving:
        leaving.send(ApiKey.FETCH, 12, fetch_request((topic, 0, 0), max_wait_ms=60_000, min_bytes=1))
        wait_until(lambda: len(readers) == 1, "the fetch waits")
    started = time.monotonic()
    wait_until(lambda: not readers, "the fetch is forgotten")
    assert time.monotonic() - started < 5
