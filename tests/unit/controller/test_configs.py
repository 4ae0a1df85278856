"""Changing settings (CTL-7)."""

from collections.abc import Mapping

import pytest
from tests.unit.controller.cluster import Cluster, topic

from ottla.config import BrokerConfig, LogConfig
from ottla.controller.configs import ConfigOperation
from ottla.controller.image import ResourceType
from ottla.errors import ErrorCode
from ottla.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)

TOPIC, BROKER, BROKER_LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
SET, DELETE, APPEND, SUBTRACT = ConfigOperation
Operation = tuple[str, int, str | None]


def replace(
    cluster: Cluster, kind: int, name: str, values: Mapping[str, str | None]
) -> tuple[ErrorCode, str | None]:
    configs = [AlterableConfig(key, value) for key, value in values.items()]
    (result,) = cluster.commit(AlterConfigsRequest([AlterConfigsResource(kind, name, configs)])).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return ErrorCode(result.error_code), result.error_message


def change(cluster: Cluster, kind: int, name: str, *operations: Operation) -> tuple[ErrorCode, str | None]:
    configs = [IncrementalAlterableConfig(*operation) for operation in operations]
    request = IncrementalAlterConfigsRequest([IncrementalAlterConfigsResource(kind, name, configs)])
    (result,) = cluster.commit(request).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return ErrorCode(result.error_code), result.error_message


def with_topic(config: BrokerConfig | None = None, **configs: str) -> Cluster:
    cluster = Cluster(config)
    cluster.create(topic("a", configs=configs))
    return cluster


def test_alter_configs_replaces_everything_that_it_does_not_name() -> None:
    cluster = with_topic(retention_ms="1", segment_bytes="1000")
    assert replace(cluster, TOPIC, "a", {"retention.ms": "2"}) == (ErrorCode.NONE, None)
    assert cluster.image.config_of(TOPIC, "a") == {"retention.ms": "2"}
    replace(cluster, TOPIC, "a", {})
    assert cluster.image.config_of(TOPIC, "a") == {}
    assert (TOPIC, "a") not in cluster.image.configs


def test_incremental_changes_leave_the_rest_alone() -> None:
    cluster = with_topic(retention_ms="1", segment_bytes="1000")
    assert change(cluster, TOPIC, "a", ("retention.ms", SET, "2"), ("flush.ms", SET, "5")) == (
        ErrorCode.NONE,
        None,
    )
    assert change(cluster, TOPIC, "a", ("segment.bytes", DELETE, None)) == (ErrorCode.NONE, None)
    assert cluster.image.config_of(TOPIC, "a") == {"retention.ms": "2", "flush.ms": "5"}


def test_lists_can_be_added_to_and_taken_from_starting_at_what_is_inherited() -> None:
    cluster = with_topic()
    change(cluster, TOPIC, "a", ("cleanup.policy", APPEND, "compact"))
    assert cluster.image.config_of(TOPIC, "a") == {"cleanup.policy": "delete,compact"}
    change(cluster, TOPIC, "a", ("cleanup.policy", APPEND, "compact"))
    change(cluster, TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete"))
    assert cluster.image.config_of(TOPIC, "a") == {"cleanup.policy": "compact"}
    change(cluster, TOPIC, "a", ("cleanup.policy", SUBTRACT, "compact"))
    assert cluster.image.config_of(TOPIC, "a") == {"cleanup.policy": ""}
    assert cluster.settings.topic_config({"cleanup.policy": ""}).cleanup_policy == ()


def test_a_change_to_the_same_value_writes_nothing() -> None:
    cluster = with_topic(retention_ms="1")
    size = len(cluster.log)
    change(cluster, TOPIC, "a", ("retention.ms", SET, "1"), ("flush.ms", DELETE, None))
    assert len(cluster.log) == size


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        (("no.such", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("no.such", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (("max.compaction.lag.ms", SET, "1"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_change_that_cannot_be_is_refused(operation: Operation, code: ErrorCode) -> None:
    cluster = with_topic(min_compaction_lag_ms="5")
    assert change(cluster, TOPIC, "a", operation)[0] == code
    assert cluster.image.config_of(TOPIC, "a") == {"min.compaction.lag.ms": "5"}


def test_a_refused_change_changes_none_of_its_settings() -> None:
    cluster = with_topic()
    change(cluster, TOPIC, "a", ("flush.ms", SET, "5"), ("retention.ms", SET, "soon"))
    assert (
        replace(cluster, TOPIC, "a", {"flush.ms": "5", "retention.ms": None})[0] == ErrorCode.INVALID_REQUEST
    )
    assert cluster.image.config_of(TOPIC, "a") == {}


def test_what_all_brokers_must_agree_on_is_the_clusters_from_the_first_registration_on() -> None:
    cluster = Cluster(BrokerConfig.from_properties({"min.insync.replicas": "2"}))
    assert cluster.image.config_of(BROKER, "") == {"min.insync.replicas": "2"}
    change(cluster, BROKER, "", ("min.insync.replicas", SET, "3"))
    assert cluster.image.config_of(BROKER, "") == {"min.insync.replicas": "3"}
    assert change(cluster, BROKER, "", ("min.insync.replicas", DELETE, None)) == (ErrorCode.NONE, None)
    assert cluster.image.config_of(BROKER, "") == {"min.insync.replicas": "2"}
    replace(cluster, BROKER, "", {"log.segment.bytes": "1000"})
    assert cluster.image.config_of(BROKER, "") == {"min.insync.replicas": "2", "log.segment.bytes": "1000"}


def test_what_stands_twice_is_refused() -> None:
    cluster = with_topic()
    twice = change(cluster, TOPIC, "a", ("flush.ms", SET, "1"), ("flush.ms", SET, "2"))
    assert twice == (ErrorCode.INVALID_REQUEST, "flush.ms stands more than once in the request.")
    resource = AlterConfigsResource(TOPIC, "a", [AlterableConfig("flush.ms", "1")])
    responses = cluster.commit(AlterConfigsRequest([resource, resource])).responses
    assert [item.error_code for item in responses] == [ErrorCode.INVALID_REQUEST] * 2


def test_validating_only_writes_nothing() -> None:
    cluster = with_topic()
    configs = [IncrementalAlterableConfig("flush.ms", SET, "1")]
    resources = [IncrementalAlterConfigsResource(TOPIC, "a", configs)]
    decision = cluster.decide(IncrementalAlterConfigsRequest(resources, validate_only=True))
    assert (decision.records, decision.response.responses[0].error_code) == ([], 0)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "zzz", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (BROKER, "²", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "g", ErrorCode.INVALID_REQUEST),
        (99, "g", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_resource_without_settings_here_is_refused(kind: int, name: str, code: ErrorCode) -> None:
    assert change(Cluster(), kind, name, ("flush.ms", SET, "1"))[0] == code
    assert replace(Cluster(), kind, name, {})[0] == code


def test_a_brokers_dynamic_settings_are_defaults_of_topics_at_once() -> None:
    cluster = with_topic(BrokerConfig(logs=LogConfig(segment_bytes=500)))
    assert cluster.settings.topic_config({}).segment_bytes == 500
    change(cluster, BROKER, "", ("log.segment.bytes", SET, "1000"), ("log.retention.ms", SET, "7"))
    assert cluster.settings.topic_config({}).segment_bytes == 1000
    change(cluster, BROKER, "1", ("log.segment.bytes", SET, "2000"))
    config = cluster.settings.topic_config(cluster.image.config_of(TOPIC, "a"))
    assert (config.segment_bytes, config.retention_ms) == (2000, 7)


def test_settings_that_a_broker_reads_once_cannot_change_while_it_runs() -> None:
    cluster = Cluster()
    code, message = change(cluster, BROKER, "1", ("listeners", SET, "PLAINTEXT://:1"), ("node.id", SET, "2"))
    assert code == ErrorCode.INVALID_REQUEST
    assert message == "listeners, node.id cannot change while the broker runs: set it and restart the broker."
    assert change(cluster, BROKER, "", ("log.dirs", DELETE, None))[0] == ErrorCode.INVALID_REQUEST
    assert change(cluster, BROKER, "", ("log.segment.bytes", SET, "1"))[0] == ErrorCode.INVALID_REQUEST


def test_settings_in_the_log_that_this_version_does_not_know_or_that_clash_stop_nothing() -> None:
    cluster = with_topic(max_compaction_lag_ms="10")
    change(cluster, BROKER, "", ("log.cleaner.min.compaction.lag.ms", SET, "100"))
    own = cluster.image.config_of(TOPIC, "a")
    assert cluster.settings.topic_config({**own, "from.the.future": "1"}).min_compaction_lag_ms == 100


CLIENT_METRICS = ResourceType.CLIENT_METRICS


def test_a_subscription_to_metrics_of_clients_comes_with_its_first_setting_and_goes_with_its_last() -> None:
    cluster = Cluster()
    assert change(cluster, CLIENT_METRICS, "m", ("metrics", APPEND, "org.a")) == (ErrorCode.NONE, None)
    change(cluster, CLIENT_METRICS, "m", ("metrics", APPEND, "org.b"), ("match", SET, "client_id=a.*"))
    assert cluster.image.config_of(CLIENT_METRICS, "m") == {
        "metrics": "org.a,org.b",
        "match": "client_id=a.*",
    }
    change(cluster, CLIENT_METRICS, "m", ("metrics", DELETE, None), ("match", DELETE, None))
    assert (CLIENT_METRICS, "m") not in cluster.image.configs


def test_a_subscription_that_cannot_be_used_is_refused_in_words() -> None:
    cluster = Cluster()
    for name, setting, value, code in (
        ("m", "interval.ms", "99", ErrorCode.INVALID_REQUEST),
        ("m", "colour", "red", ErrorCode.INVALID_REQUEST),
        ("m", "match", "client=a", ErrorCode.INVALID_REQUEST),
        ("m", "match", "client_id=(", ErrorCode.INVALID_CONFIG),
        ("", "metrics", "*", ErrorCode.INVALID_REQUEST),
    ):
        found, sentence = change(cluster, CLIENT_METRICS, name, (setting, SET, value))
        assert found == code
        assert sentence
    assert not any(resource.type == CLIENT_METRICS for resource in cluster.image.configs)
