"""Clear errors, by their Kafka names, for what does not exist or is not allowed (WIRE-2)."""

from __future__ import annotations

import struct

import pytest
from tests.clients import raw
from tests.clients.catalogue import families
from tests.clients.conftest import MakeTopic
from tests.clients.model import Client, Message, RefusedError

from ottla.localcluster.broker_process import BrokerProcess

UNKNOWN_TOPIC_OR_PARTITION, CORRUPT_MESSAGE = 3, 2


def refusal(call: object, *arguments: object, **options: object) -> str:
    with pytest.raises(RefusedError) as refused:
        call(*arguments, **options)  # type: ignore[operator]
    return refused.value.code


@families("admin")
def test_an_unknown_topic_is_unknown_to_every_admin_call(client: Client, topic_name: str) -> None:
    assert refusal(client.delete_topic, topic_name) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert refusal(client.add_partitions, topic_name, 5) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert refusal(client.describe_topic, topic_name) == "UNKNOWN_TOPIC_OR_PARTITION"


@families("config_errors")
def test_the_configs_of_an_unknown_topic_are_not_described(client: Client, topic_name: str) -> None:
    assert refusal(client.describe_configs, topic_name) == "UNKNOWN_TOPIC_OR_PARTITION"


@families("incremental_alter_configs")
def test_the_configs_of_an_unknown_topic_are_not_altered(client: Client, topic_name: str) -> None:
    change = {"retention.ms": "1"}
    assert refusal(client.incremental_alter_configs, topic_name, change) == "UNKNOWN_TOPIC_OR_PARTITION"


@families("admin")
def test_a_topic_that_exists_is_not_created_again(client: Client, make_topic: MakeTopic) -> None:
    assert refusal(client.create_topic, make_topic(), 1) == "TOPIC_ALREADY_EXISTS"


@families("admin")
def test_more_replicas_than_brokers_are_refused(client: Client, topic_name: str) -> None:
    assert refusal(client.create_topic, topic_name, 1, replication=3) == "INVALID_REPLICATION_FACTOR"


@families("admin")
def test_a_topic_without_partitions_is_refused(client: Client, topic_name: str) -> None:
    with pytest.raises(
        (RefusedError, ValueError, AssertionError), match=r"(?i)partition"
    ):  # some refuse by themselves
        client.create_topic(topic_name, 0)
    assert refusal(client.describe_topic, topic_name) == "UNKNOWN_TOPIC_OR_PARTITION"


@families("admin")
@pytest.mark.parametrize("name", ["with/slash", "with space", "..", "x" * 250])
def test_a_bad_topic_name_is_refused(client: Client, name: str) -> None:
    assert refusal(client.create_topic, name, 1) == "INVALID_TOPIC_EXCEPTION"


@families("admin")
@pytest.mark.parametrize(
    "config",
    [{"retention.ms": "soon"}, {"no.such.config": "1"}, {"cleanup.policy": "sweep"}, {"segment.bytes": "1"}],
)
def test_an_invalid_config_is_refused_when_a_topic_is_created(
    client: Client, topic_name: str, config: dict[str, str]
) -> None:
    assert refusal(client.create_topic, topic_name, 1, configs=config) == "INVALID_CONFIG"
    assert refusal(client.describe_topic, topic_name) == "UNKNOWN_TOPIC_OR_PARTITION"


@families("alter_configs")
def test_an_invalid_config_is_refused_by_alter_configs(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic()
    assert refusal(client.alter_configs, topic, {"retention.ms": "soon"}) == "INVALID_CONFIG"
    assert refusal(client.alter_configs, topic, {"no.such.config": "1"}) == "INVALID_CONFIG"


@families("incremental_alter_configs")
def test_an_invalid_config_is_refused_by_incremental_alter_configs(
    client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    assert refusal(client.incremental_alter_configs, topic, {"retention.ms": "soon"}) == "INVALID_CONFIG"
    assert refusal(client.incremental_alter_configs, topic, {"no.such.config": "1"}) == "INVALID_CONFIG"


@families("admin")
def test_partitions_are_never_taken_away(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    assert refusal(client.add_partitions, topic, 2) == "INVALID_PARTITIONS"
    assert refusal(client.add_partitions, topic, 3) == "INVALID_PARTITIONS"


@families("delete_records")
def test_records_beyond_the_high_watermark_cannot_be_deleted(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    reference.produce(topic, [Message(b"only")])
    assert refusal(client.delete_records, topic, 0, 100) == "OFFSET_OUT_OF_RANGE"


@families()
def test_a_record_larger_than_the_topic_allows_is_refused_and_the_next_one_is_not(
    client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="5000")
    assert refusal(client.produce, topic, [Message(b"x" * 20_000)]) == "MESSAGE_TOO_LARGE"
    client.produce(topic, [Message(b"x" * 1000)])
    assert [record.offset for record in client.consume(topic, 1)] == [0]


@families("admin")  # kcat and librdkafka of its age retry for the whole message timeout
def test_a_partition_that_is_not_there_cannot_be_written(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    assert refusal(client.produce, topic, [Message(b"lost")], partition=7) == "UNKNOWN_TOPIC_OR_PARTITION"


@families()
def test_a_compacted_topic_refuses_records_without_a_key(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic(cleanup_policy="compact")
    client.produce(topic, [Message(b"value", b"key")])
    with pytest.raises((RefusedError, AssertionError)):  # not every client knows the name of INVALID_RECORD
        client.produce(topic, [Message(b"value")])
    assert reference.list_offset(topic, 0, "latest") == 1


def test_produce_fetch_and_list_offsets_name_the_unknown_partition(
    broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    for name, partition in ((topic, 9), ("no-such-topic", 0)):
        assert raw.fetch(broker.bootstrap, name, partition)[0] == UNKNOWN_TOPIC_OR_PARTITION
        assert raw.list_offset(broker.bootstrap, name, partition, -1)[0] == UNKNOWN_TOPIC_OR_PARTITION
        assert raw.produce(broker.bootstrap, name, partition, b"")[0] == UNKNOWN_TOPIC_OR_PARTITION


def test_a_damaged_batch_is_refused_and_not_stored(
    broker: BrokerProcess, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    reference.produce(topic, [Message(b"whole")])
    _, records = raw.fetch(broker.bootstrap, topic)
    damaged = bytearray(records)
    damaged[-1] ^= 0xFF
    assert raw.produce(broker.bootstrap, topic, 0, bytes(damaged)) == (CORRUPT_MESSAGE, -1)
    assert reference.list_offset(topic, 0, "latest") == 1


def test_of_many_pipelined_requests_only_the_damaged_one_is_refused(
    broker: BrokerProcess, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    reference.produce(topic, [Message(b"whole")])
    _, whole = raw.fetch(broker.bootstrap, topic)
    damaged = whole[:-1] + bytes([whole[-1] ^ 0xFF])
    sent = [damaged if n in (7, 23) else whole for n in range(50)]
    answers = raw.produce_pipelined(broker.bootstrap, topic, sent)
    assert [error for error, _ in answers] == [CORRUPT_MESSAGE if n in (7, 23) else 0 for n in range(50)]
    assert [offset for error, offset in answers if error == 0] == list(range(1, 49))
    assert reference.list_offset(topic, 0, "latest") == 49


def test_an_api_versions_request_from_the_future_is_answered_in_version_0(broker: BrokerProcess) -> None:
    answer = raw.ask(broker.bootstrap, raw.API_VERSIONS, 99, b"\x00\x04abc\x041.0\x00")
    error_code, count = struct.unpack_from(">hi", answer)
    ranges = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", answer[6 : 6 + 6 * count])}
    assert error_code == 35
    assert ranges[raw.API_VERSIONS][1] >= 4
    assert len(answer) == 6 + 6 * count
