"""The options of the source: what they mean, and what is said about those that are wrong."""

import re
from typing import Any

import pytest

from ottla.model import TopicPartition
from ottla.spark.option_values import OptionError
from ottla.spark.source.plan.options import (
    NAMES,
    Partitions,
    TopicPattern,
    Topics,
    source_options,
)
from ottla.spark.source.plan.positions import AtOffsets, AtTimestamp, AtTimestamps, Earliest, Latest
from ottla.spark.source.plan.query_bounds import for_batch, for_stream

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
LEAST = {"kafka.bootstrap.servers": "here:9092", "subscribe": "a"}


def options(**more: str) -> Any:
    return source_options({**LEAST, **more})


def refused(said: str, **more: str) -> None:
    with pytest.raises(OptionError) as caught:
        options(**more)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)  # Spark's users read one line of it


def test_the_defaults_are_those_of_sparks_kafka_source() -> None:
    least = source_options(LEAST)
    assert (least.bootstrap_servers, least.subscription) == ("here:9092", Topics(("a",)))
    assert (least.include_headers, least.fail_on_data_loss, least.read_committed) == (False, True, False)
    assert (least.max_offsets_per_trigger, least.min_offsets_per_trigger) == (None, None)
    assert least.max_trigger_delay_ms == 15 * 60_000
    assert (least.min_partitions, least.max_records_per_partition) == (None, None)
    assert (least.num_retries, least.retry_interval_ms, least.metadata_cache_ttl_ms) == (3, 1000, -1)
    assert for_batch(least) == (Earliest(), Latest())
    assert for_stream(least) == Latest()


def test_names_do_not_care_for_case() -> None:
    given = {"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBEPATTERN": "a.*", "INCLUDEheaders": "true"}
    parsed = source_options(given)
    assert (parsed.subscription, parsed.include_headers) == (TopicPattern("a.*"), True)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_known_in_lower_case_too(name: str) -> None:
    try:
        options(**{name.lower(): "1"})
    except OptionError as error:
        assert "unknown" not in str(error)  # noqa: PT017 - most of them do not like the value


def test_the_brokers_must_be_named() -> None:
    with pytest.raises(OptionError, match=re.escape('.option("kafka.bootstrap.servers", "localhost:9092")')):
        source_options({"subscribe": "a"})
    assert source_options({"subscribe": "a", "bootstrap.servers": "h:1"}).bootstrap_servers == "h:1"
    for wrong in ("h:port", "h:99999", "PLAINTEXT://h:9092"):
        with pytest.raises(OptionError, match=f"'kafka.bootstrap.servers' is '{wrong}': "):
            source_options({"subscribe": "a", "kafka.bootstrap.servers": wrong})


def test_exactly_one_option_says_what_to_read() -> None:
    with pytest.raises(OptionError, match="One of the options 'subscribe', 'subscribePattern' and 'assign'"):
        source_options({"kafka.bootstrap.servers": "h:1"})
    refused("Only one of the options 'subscribe', 'assign' can be given", assign='{"a":[0]}')


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"subscribe": " a , b,,a "}, Topics(("a", "b"))),
        ({"subscribePattern": " a.* "}, TopicPattern("a.*")),
        ({"assign": '{"a":[0,1]}'}, Partitions(frozenset({A0, A1}))),
    ],
)
def test_what_is_read(given: dict[str, str], meant: object) -> None:
    assert source_options({"kafka.bootstrap.servers": "h:1", **given}).subscription == meant


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": " , "}, "'subscribe' names no topic"),
        ({"subscribePattern": " "}, "'subscribePattern' is empty"),
        ({"subscribePattern": "a["}, "'subscribePattern' is not a regular expression: 'a['"),
        ({"assign": "a"}, "'assign' must be JSON such as {\"topicA\":[0,1]"),
        ({"assign": "{}"}, "'assign' names no partition"),
    ],
)
def test_what_cannot_be_read(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=re.escape(said)):
        source_options({"kafka.bootstrap.servers": "h:1", **given})


def test_a_misspelt_option_is_answered_with_the_nearest_one() -> None:
    refused(
        "Option 'maxoffsetpertrigger' is unknown. Did you mean 'maxOffsetsPerTrigger'?",
        maxoffsetpertrigger="1",
    )
    refused("Option 'startingoffset' is unknown. Did you mean 'startingOffsets'?", startingoffset="1")
    refused("Option 'zebra' is unknown. There are: assign, ", zebra="1")
    with pytest.raises(OptionError, match=r"Did you mean 'kafka.bootstrap.servers'"):
        source_options({"kafkabootstrap.servers": "h:1", "subscribe": "a"})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"startingOffsets": "Earliest"}, Earliest()),
        ({"startingOffsets": '{"a":{"0":3,"1":-2}}'}, AtOffsets({A0: 3, A1: -2})),
        (
            {"startingOffsetsByTimestamp": '{"a":{"0":5}}', "startingOffsets": "earliest"},
            AtTimestamps({A0: 5}),
        ),
        ({"startingTimestamp": "9", "startingOffsetsByTimestamp": '{"a":{"0":5}}'}, AtTimestamp(9)),
        ({"startingTimestamp": " 9 ", "startingOffsets": "earliest"}, AtTimestamp(9)),
    ],
)
def test_where_it_starts_and_what_goes_before_what(given: dict[str, str], meant: object) -> None:
    assert for_stream(options(**given)) == meant
    assert for_batch(options(**given))[0] == meant


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"endingOffsets": "latest"}, Latest()),
        ({"endingOffsets": '{"a":{"0":3,"1":-1}}'}, AtOffsets({A0: 3, A1: -1})),
        ({"endingOffsetsByTimestamp": '{"a":{"0":5}}', "endingOffsets": "latest"}, AtTimestamps({A0: 5})),
        ({"endingTimestamp": "9", "endingOffsetsByTimestamp": '{"a":{"0":5}}'}, AtTimestamp(9)),
    ],
)
def test_where_a_batch_ends(given: dict[str, str], meant: object) -> None:
    assert for_batch(options(**given))[1] == meant


@pytest.mark.parametrize("side", ["starting", "ending"])
def test_wrong_positions_are_told_with_an_example(side: str) -> None:
    example = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    refused(
        f"'{side}Offsets' must be earliest, latest, or JSON such as {example}, not 'first'",
        **{f"{side}Offsets": "first"},
    )
    refused(f"'{side}Offsets' must be earliest, latest, or JSON", **{f"{side}Offsets": '{"a":[0]}'})
    refused("has the offset -3 for a-0: it must be 0 or more, -1", **{f"{side}Offsets": '{"a":{"0":-3}}'})
    refused(f"'{side}Timestamp' must be a whole number, not 'now'", **{f"{side}Timestamp": "now"})
    refused(f"'{side}Timestamp' must be milliseconds since 1970, not '-1'", **{f"{side}Timestamp": "-1"})
    refused(f"'{side}OffsetsByTimestamp' must be JSON such as", **{f"{side}OffsetsByTimestamp": "x"})
    refused("has -1 for a-0: it must be milliseconds", **{f"{side}OffsetsByTimestamp": '{"a":{"0":-1}}'})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingOffsets": "latest"}, "'startingOffsets' cannot be latest in a batch query"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "'startingOffsets' cannot be -1 (latest) for a-0 in a batch"),
        ({"endingOffsets": "earliest"}, "'endingOffsets' cannot be earliest in a batch query"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "'endingOffsets' cannot be -2 (earliest) for a-0 in a batch"),
        (
            {"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":4}}'},
            "The starting offset 5 of a-0 is after its ending offset 4.",
        ),
        (
            {"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"1":4}}'},
            "must name the same partitions. Starting: a-0. Ending: a-1.",
        ),
        (
            {"startingOffsetsByTimestamp": '{"a":{"0":5}}', "endingOffsetsByTimestamp": '{"a":{"0":4}}'},
            "The starting timestamp 5 of a-0 is after its ending timestamp 4.",
        ),
        (
            {"startingTimestamp": "5", "endingTimestamp": "4"},
            "'startingTimestamp' (5) is after 'endingTimestamp' (4)",
        ),
    ],
)
def test_what_a_batch_cannot_do(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=re.escape(said)):
        for_batch(options(**given))


def test_symbols_are_not_compared_with_offsets() -> None:
    both = options(startingOffsets='{"a":{"0":-2,"1":7}}', endingOffsets='{"a":{"0":3,"1":-1}}')
    assert for_batch(both) == (AtOffsets({A0: -2, A1: 7}), AtOffsets({A0: 3, A1: -1}))


@pytest.mark.parametrize(
    ("name", "value"),
    [("endingOffsets", "latest"), ("endingTimestamp", "5"), ("endingOffsetsByTimestamp", '{"a":{"0":5}}')],
)
def test_a_stream_has_no_end(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"'{name}' is only for batch queries"):
        for_stream(options(**{name: value}))


@pytest.mark.parametrize(
    "name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition"]
)
def test_counts_are_positive(name: str) -> None:
    for wrong in ("0", "-1", "many"):
        refused(f"Option '{name}' must be a whole number", **{name: wrong})


def test_the_minimum_is_not_above_the_maximum() -> None:
    assert options(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5").min_offsets_per_trigger == 5
    refused(
        "'minOffsetsPerTrigger' (6) must not be greater than 'maxOffsetsPerTrigger' (5)",
        minOffsetsPerTrigger="6",
        maxOffsetsPerTrigger="5",
    )


def test_other_values() -> None:
    parsed = options(
        startingOffsetsByTimestampStrategy="LATEST",
        maxTriggerDelay="30s",
        failOnDataLoss="false",
        pushFilters="true",
        commitProgress="false",
        **{
            "fetchOffset.numRetries": "5",
            "fetchOffset.retryIntervalMs": "0",
            "kafkaConsumer.pollTimeoutMs": "700",
            "partition.metadata.cache.ttl.ms": "1000",
            "kafka.isolation.level": "read_committed",
        },
    )
    assert (parsed.strategy, parsed.max_trigger_delay_ms, parsed.fail_on_data_loss) == (
        "latest",
        30_000,
        False,
    )
    assert (parsed.push_filters, parsed.commit_progress, parsed.read_committed) == (True, False, True)
    assert (parsed.num_retries, parsed.retry_interval_ms, parsed.metadata_cache_ttl_ms) == (5, 0, 1000)
    assert parsed.client["default.api.timeout.ms"] == "700"


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("startingOffsetsByTimestampStrategy", "first", "must be error or latest, not 'first'"),
        ("maxTriggerDelay", "soon", "must be a time such as"),
        ("failOnDataLoss", "no", "must be true or false"),
        ("includeHeaders", "x", "must be true or false"),
        ("pushFilters", "x", "must be true or false"),
        ("commitProgress", "x", "must be true or false"),
        ("fetchOffset.numRetries", "0", "at least 1"),
        ("fetchOffset.retryIntervalMs", "-1", "at least 0"),
        ("kafkaConsumer.pollTimeoutMs", "0", "at least 1"),
        ("partition.metadata.cache.ttl.ms", "0", "or -1 for no cache"),
        ("groupId", " ", "'groupId' is empty"),
    ],
)
def test_other_wrong_values(name: str, wrong: str, said: str) -> None:
    refused(said, **{name: wrong})


@pytest.mark.parametrize(
    ("given", "group"),
    [
        ({}, "spark-ottla-a"),
        ({"groupIdPrefix": "mill"}, "mill-a"),
        ({"groupId": "mine", "groupIdPrefix": "mill"}, "mine"),
        ({"kafka.group.id": "theirs"}, "theirs"),
        ({"kafka.group.id": "theirs", "groupId": "mine"}, "mine"),
    ],
)
def test_the_group_that_shows_the_progress(given: dict[str, str], group: str) -> None:
    assert options(**given).group_id == group


def test_what_spark_adds_for_a_table_of_its_catalog_is_no_mistake() -> None:
    assert options(path="file:/warehouse/orders").subscription == Topics(("a",))
