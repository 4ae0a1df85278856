"""Describing settings: all of them, with where they come from (CTL-7)."""

from tests.unit.controller.cluster import NODE_ID, Cluster, topic

from ottla.config import BrokerConfig, TopicConfig, settings_of
from ottla.controller.describe.configs import describe_configs, list_config_resources
from ottla.controller.image import ResourceType
from ottla.errors import ErrorCode
from ottla.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER


def described(
    cluster: Cluster, kind: int, name: str, keys: list[str] | None = None, details: bool = False
) -> DescribeConfigsResult:
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)], details, details)
    (result,) = describe_configs(cluster.image, request, cluster.settings, node_id=NODE_ID).results
    return result


def entry(cluster: Cluster, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    (config,) = described(cluster, kind, name, [key], details=True).configs
    return config


def set_on_broker(cluster: Cluster, name: str, key: str, value: str) -> None:
    configs = [IncrementalAlterableConfig(key, 0, value)]
    response = cluster.commit(
        IncrementalAlterConfigsRequest([IncrementalAlterConfigsResource(BROKER, name, configs)])
    )
    assert response.responses[0].error_code == 0


def test_a_topic_shows_all_its_settings() -> None:
    cluster = Cluster()
    cluster.create(topic("a"))
    result = described(cluster, TOPIC, "a")
    assert (result.error_code, result.error_message) == (0, None)
    assert [config.name for config in result.configs] == [
        setting.name for setting in settings_of(TopicConfig)
    ]
    sources = {config.name: config.config_source for config in result.configs}
    assert sources.pop("min.insync.replicas") == 3
    assert set(sources.values()) == {5}
    assert not any(config.read_only for config in result.configs)
    assert all(config.synonyms == [] and config.documentation is None for config in result.configs)


def test_only_the_settings_asked_for_are_shown() -> None:
    cluster = Cluster()
    cluster.create(topic("a"))
    shown = described(cluster, TOPIC, "a", ["segment.ms", "no.such", "flush.ms"]).configs
    assert [config.name for config in shown] == ["flush.ms", "segment.ms"]
    assert len(described(cluster, TOPIC, "a", []).configs) == len(settings_of(TopicConfig))


def test_every_place_that_gives_a_value_is_a_synonym_the_decisive_one_first() -> None:
    cluster = Cluster(BrokerConfig.from_properties({"log.segment.bytes": "400"}))
    cluster.create(topic("a", segment_bytes=" 100 "), topic("b"))
    set_on_broker(cluster, "1", "log.segment.bytes", "200")
    set_on_broker(cluster, "", "log.segment.bytes", "300")
    own = entry(cluster, TOPIC, "a", "segment.bytes")
    assert (own.value, own.config_source, own.config_type) == ("100", 1, 3)
    assert own.documentation
    assert [(item.name, item.value, item.source) for item in own.synonyms] == [
        ("segment.bytes", "100", 1),
        ("log.segment.bytes", "200", 2),
        ("log.segment.bytes", "300", 3),
        ("log.segment.bytes", "400", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    inherited = entry(cluster, TOPIC, "b", "segment.bytes")
    assert (inherited.value, inherited.config_source) == ("200", 2)


def test_a_time_is_shown_in_ms_and_its_synonyms_in_their_own_units() -> None:
    cluster = Cluster(BrokerConfig.from_properties({"log.retention.minutes": "2"}))
    cluster.create(topic("a"))
    retention = entry(cluster, TOPIC, "a", "retention.ms")
    assert (retention.value, retention.config_source) == ("120000", 4)
    assert [(item.name, item.value, item.source) for item in retention.synonyms] == [
        ("log.retention.minutes", "2", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_a_value_given_at_the_start_is_static_even_if_it_is_the_default() -> None:
    cluster = Cluster(BrokerConfig.from_properties({"num.partitions": "1"}))
    assert entry(cluster, BROKER, "1", "num.partitions").config_source == 4
    assert entry(Cluster(), BROKER, "1", "num.partitions").config_source == 5


def test_a_broker_shows_all_its_settings_and_which_are_read_only() -> None:
    cluster = Cluster()
    set_on_broker(cluster, "", "log.segment.bytes", "300")
    configs = {config.name: config for config in described(cluster, BROKER, "1").configs}
    assert len(configs) == len(settings_of(BrokerConfig))
    assert configs["listeners"].read_only
    assert configs["listeners"].value == "PLAINTEXT://localhost:9092"
    assert (configs["log.segment.bytes"].value, configs["log.segment.bytes"].config_source) == ("300", 3)
    assert not configs["log.segment.bytes"].read_only
    assert (configs["log.retention.ms"].value, configs["log.retention.ms"].config_source) == (None, 5)
    assert configs["log.cleanup.policy"].value == "delete"
    assert configs["auto.create.topics.enable"].value == "true"


def test_the_default_of_all_brokers_shows_what_was_set_there_and_nothing_else() -> None:
    cluster = Cluster()
    assert [config.name for config in described(cluster, BROKER, "").configs] == ["min.insync.replicas"]
    set_on_broker(cluster, "", "log.segment.bytes", "300")
    _, config = described(cluster, BROKER, "").configs
    assert (config.name, config.value, config.config_source) == ("log.segment.bytes", "300", 3)


def test_what_cannot_be_described_is_refused_with_a_sentence() -> None:
    cluster = Cluster(brokers=2)
    refusals = {
        (TOPIC, "zzz"): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (TOPIC, "a/b"): ErrorCode.INVALID_TOPIC_EXCEPTION,
        (BROKER, "2"): ErrorCode.INVALID_REQUEST,
        (BROKER, "9"): ErrorCode.INVALID_REQUEST,
        (ResourceType.BROKER_LOGGER, "1"): ErrorCode.INVALID_REQUEST,
        (ResourceType.CLIENT_METRICS, ""): ErrorCode.INVALID_REQUEST,
        (ResourceType.GROUP, "g"): ErrorCode.INVALID_REQUEST,
    }
    for (kind, name), code in refusals.items():
        result = described(cluster, kind, name)
        assert (result.error_code, result.configs) == (code, [])
        assert result.error_message


def test_topics_and_brokers_are_listed_as_things_with_settings() -> None:
    cluster = Cluster()
    cluster.create(topic("b"), topic("a"))
    listed = list_config_resources(cluster.image, ListConfigResourcesRequest(), 1).config_resources
    assert [(item.resource_type, item.resource_name) for item in listed] == [(2, "a"), (2, "b"), (4, "1")]
    topics = list_config_resources(cluster.image, ListConfigResourcesRequest([TOPIC]), 1).config_resources
    assert [item.resource_name for item in topics] == ["a", "b"]
    assert list_config_resources(cluster.image, ListConfigResourcesRequest(), 0).config_resources == []
    unknown = list_config_resources(cluster.image, ListConfigResourcesRequest([77]), 1)
    assert unknown.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_subscription_to_metrics_of_clients_is_listed_and_described_with_its_sources() -> None:
    cluster = Cluster()
    resource = IncrementalAlterConfigsResource(
        ResourceType.CLIENT_METRICS, "m", [IncrementalAlterableConfig("interval.ms", 0, "500")]
    )
    cluster.commit(IncrementalAlterConfigsRequest([resource]))
    (listed,) = list_config_resources(cluster.image, ListConfigResourcesRequest(), 0).config_resources
    assert (listed.resource_name, listed.resource_type) == ("m", ResourceType.CLIENT_METRICS)
    shown = {each.name: each for each in described(cluster, ResourceType.CLIENT_METRICS, "m").configs}
    assert {name: (each.value, each.config_source) for name, each in shown.items()} == {
        "interval.ms": ("500", 7),
        "metrics": ("", 5),
        "match": ("", 5),
    }
