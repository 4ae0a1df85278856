from __future__ import annotations

from typing import Any

import pytest

from ottla.spark.option_values import OptionError
from ottla.spark.sink.options import ExactlyOnce, SinkOptions, sink_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def test_where_to_write_is_read_whatever_the_case() -> None:
    assert sink_options({"Kafka.Bootstrap.Servers": " h:1 ", "TOPIC": "t"}) == SinkOptions("h:1", "t", {})
    assert sink_options({"bootstrap.servers": "h:1"}) == SinkOptions("h:1", None, {})


@pytest.mark.parametrize(
    ("name", "text", "argument", "value"),
    [
        ("acks", "all", "acks", "all"),
        ("acks", "1", "acks", 1),
        ("acks", "-1", "acks", -1),
        ("batch.size", "1000", "batch_size", 1000),
        ("buffer.memory", "2000000", "buffer_memory", 2_000_000),
        ("client.id", "mill", "client_id", "mill"),
        ("compression.type", "zstd", "compression", "zstd"),
        ("compression.zstd.level", "5", "compression_level", 5),
        ("delivery.timeout.ms", "9000", "delivery_timeout_ms", 9000),
        ("enable.idempotence", "false", "enable_idempotence", False),
        ("linger.ms", "0", "linger_ms", 0),
        ("max.block.ms", "5", "max_block_ms", 5),
        ("max.in.flight.requests.per.connection", "2", "max_in_flight_requests_per_connection", 2),
        ("max.request.size", "5000", "max_request_size", 5000),
        ("metadata.max.age.ms", "1000", "metadata_max_age_ms", 1000),
        ("request.timeout.ms", "100", "request_timeout_ms", 100),
        ("retries", "0", "retries", 0),
        ("retry.backoff.ms", "10", "retry_backoff_ms", 10),
        ("retry.backoff.max.ms", "20", "retry_backoff_max_ms", 20),
    ],
)
def test_settings_of_javas_producer_are_those_of_ours(
    name: str, text: str, argument: str, value: Any
) -> None:
    assert sink_options({**SERVERS, f"kafka.{name}": text}).producer == {argument: value}


@pytest.mark.parametrize(
    "option",
    [
        "kafka.send.buffer.bytes",
        "kafka.metric.reporters",
        "kafka.fetch.min.bytes",
        "kafka.max.poll.records",
        "startingOffsets",
        "includeHeaders",
        "checkpointLocation",
        "path",
    ],
)
def test_what_has_no_meaning_for_the_sink_has_no_effect(option: str) -> None:
    assert sink_options({**SERVERS, option: "1"}) == SinkOptions("localhost:9092", None, {})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Option 'kafka.bootstrap.servers' is missing: say which brokers to write to"),
        ({"topic": " "}, "Option 'topic' must not be empty."),
        ({"topics": "t"}, "Option 'topics' is unknown. Did you mean 'topic'?"),
        (
            {"frobnicate": "t"},
            "Option 'frobnicate' is unknown. There are: topic, delivery, and those that begin with 'kafka.'.",
        ),
        ({"kafka.acks": "2"}, "Option 'kafka.acks' must be all or -1 or 0 or 1, not '2'."),
        (
            {"kafka.linger.ms": "-1"},
            "Option 'kafka.linger.ms' must be a whole number of at least 0, not '-1'.",
        ),
        ({"kafka.batch.size": "big"}, "Option 'kafka.batch.size' must be a whole number, not 'big'."),
        (
            {"kafka.compression.type": "zip"},
            "Option 'kafka.compression.type' must be none or gzip or snappy or lz4 or zstd, not 'zip'.",
        ),
        (
            {"kafka.enable.idempotence": "yes"},
            "Option 'kafka.enable.idempotence' must be true or false, not 'yes'.",
        ),
        (
            {"kafka.linger.msec": "5"},
            "Option 'kafka.linger.msec' is unknown: no Kafka producer has such a setting. Did",
        ),
        ({"kafka.client.id": ""}, "Option 'kafka.client.id' must not be empty."),
        (
            {"kafka.key.serializer": "x"},
            "Option 'kafka.key.serializer' is not supported: keys are string or binary",
        ),
        (
            {"kafka.value.serializer": "x"},
            "Option 'kafka.value.serializer' is not supported: values are string",
        ),
        ({"kafka.partitioner.class": "x"}, "fill the column 'partition' instead."),
        ({"kafka.partitioner.ignore.keys": "true"}, "fill the column 'partition' instead."),
        ({"kafka.interceptor.classes": "x"}, "change records with DataFrame functions."),
        (
            {"kafka.transactional.id": "x"},
            "Option 'kafka.transactional.id' is not supported: the sink names its transactions itself",
        ),
        (
            {"transactionalId": "x"},
            "Option 'transactionalid' is not supported: the sink names its transactions itself",
        ),
        ({"delivery": "at-most-once"}, "Option 'delivery' must be at-least-once or exactly-once or auto"),
        ({"txnAppId": "mill"}, "Option 'txnAppId' has no meaning here: it goes with .option(\"delivery\""),
        ({"txnVersion": "1"}, "Option 'txnVersion' has no meaning here"),
        ({"delivery": "exactly-once", "txnAppId": "a/b"}, "Option 'txnAppId' must not contain '/': 'a/b'."),
        ({"delivery": "exactly-once", "txnAppId": " "}, "Option 'txnAppId' must not be empty."),
        ({"delivery": "exactly-once", "txnVersion": "x"}, "Option 'txnVersion' must be a whole number"),
        (
            {"delivery": "exactly-once", "kafka.acks": "1"},
            'transactional_id needs idempotence, and that needs acks="all"',
        ),
        (
            {"delivery": "exactly-once", "asyncProgressTrackingEnabled": "true"},
            "Option 'asyncProgressTrackingEnabled' does not go with exactly-once delivery",
        ),
        (
            {"kafka.transaction.two.phase.commit.enable": "true"},
            'it goes with .option("delivery", "exactly-once")',
        ),
        ({"kafka.sasl.mechanism": "PLAIN"}, "sasl_mechanism has no use with protocol='PLAINTEXT'"),
        (
            {"kafka.acks": "1", "kafka.enable.idempotence": "true"},
            "The options of the producer cannot be carried out: idempotence needs acks",
        ),
        ({"kafka.bootstrap.servers": "host:port"}, "host:port"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as refused:
        sink_options({**SERVERS, **options} if options else {})
    assert words in str(refused.value)


def test_what_changes_nothing_is_let_pass() -> None:
    harmless = {"kafka.partitioner.ignore.keys": "false", "kafka.security.protocol": "PLAINTEXT"}
    assert sink_options({**SERVERS, **harmless}).producer == {}


def test_exactly_once_delivery_is_wished_for_by_an_option() -> None:
    plain = sink_options({**SERVERS, "delivery": "at-least-once", "kafka.transaction.timeout.ms": "5"})
    assert plain == SinkOptions("localhost:9092", None, {})
    wished = sink_options({**SERVERS, "delivery": "Exactly-Once"})
    assert wished.exactly_once == ExactlyOnce()
    assert wished.producer == {"transaction_timeout_ms": 900_000}
    named = sink_options({**SERVERS, "delivery": "exactly-once", "txnAppId": "mill", "txnVersion": "7"})
    assert named.exactly_once == ExactlyOnce("mill", 7)


def test_exactly_once_delivery_may_be_wished_for_where_it_is_possible() -> None:
    settings = {"kafka.transaction.timeout.ms": "5", "kafka.linger.ms": "3"}
    wished = sink_options({**SERVERS, **settings, "delivery": "auto", "txnAppId": "mill"})
    assert wished.exactly_once == ExactlyOnce("mill", is_optional=True)
    assert wished.producer == {"transaction_timeout_ms": 5, "linger_ms": 3}
    assert wished.at_least_once() == SinkOptions("localhost:9092", None, {"linger_ms": 3})


def test_exactly_once_delivery_takes_the_settings_of_transactions() -> None:
    settings = {"kafka.transaction.timeout.ms": "5", "kafka.transaction.two.phase.commit.enable": "true"}
    wished = sink_options({**SERVERS, **settings, "delivery": "exactly-once"})
    assert wished.producer == {"transaction_timeout_ms": 5, "two_phase_commit": True}
