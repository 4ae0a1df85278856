"""Settings: Kafka's names and defaults, one sentence per refusal, and a reference page that cannot go
stale.
"""

from contextlib import suppress
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config import (
    INT_MAX,
    LONG_MAX,
    BrokerConfig,
    ConfigError,
    ConfigType,
    GroupConfig,
    Listener,
    TopicConfig,
    Voter,
    parse_properties,
    properties_from_environment,
    render_reference,
    settings_of,
)
from ottla.config.listeners import derived_cluster_id
from ottla.config.properties import environment_name, render_properties
from ottla.config.setting import settings_by_name

DOCS = Path(__file__).parents[2] / "docs"


def refused(**properties: str) -> str:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties({name.replace("__", "."): text for name, text in properties.items()})
    return str(caught.value)


def test_nothing_given_is_a_broker_on_localhost_with_kafkas_defaults() -> None:
    config = BrokerConfig.from_properties({})
    assert config == BrokerConfig()
    assert config.node.listener == config.node.advertised_listener == Listener("PLAINTEXT", "localhost", 9092)
    assert config.logs.directory == "./ottla-data"
    assert (config.node.id, config.topics.num_partitions, config.messages.max_bytes) == (1, 1, 1048588)
    assert (config.retention.ms, config.retention.hours) == (None, 168)
    assert config.connections.max_connections == INT_MAX
    assert config.flushes.interval_messages == LONG_MAX


def test_texts_become_values_of_the_declared_types() -> None:
    config = BrokerConfig.from_properties(
        {
            "log.segment.bytes": " 1024 ",
            "auto.create.topics.enable": "FALSE",
            "log.cleanup.policy": "compact, delete,compact",
            "log.cleaner.min.cleanable.ratio": "0.25",
            "listeners": "plaintext://[::1]:0",
            "log.dirs": "/data",
        }
    )
    assert config.logs.segment_bytes == 1024
    assert config.topics.auto_create_enable is False
    assert config.retention.cleanup_policy == ("compact", "delete")
    assert config.cleaner.min_cleanable_ratio == 0.25
    assert config.node.listener == Listener("PLAINTEXT", "::1", 0)
    assert config.logs.directory == "/data"
    assert "log.segment.bytes" in config.given
    assert "num.partitions" not in config.given


def test_a_refusal_names_the_setting_the_value_and_what_is_allowed() -> None:
    assert (
        refused(num__partitions="0") == "num.partitions cannot be '0': it must be a whole number, at least 1."
    )
    assert refused(num__partitions="1_000").startswith("num.partitions cannot be '1_000'")
    assert "true or false" in refused(delete__topic__enable="yes")
    assert "producer" in refused(compression__type="brotli")
    assert "a list of: delete, compact" in refused(log__cleanup__policy="keep")
    assert "a number from 0 to 1" in refused(log__cleaner__min__cleanable__ratio="nan")
    assert "between -2147483648 and 2147483647" in refused(node__id=str(2**31))
    assert len(refused(num__partitions="9" * 5000)) < 300


def test_an_unknown_name_is_refused_with_the_closest_known_one() -> None:
    closest = "There is no setting 'log.segmnt.bytes'; did you mean 'log.segment.bytes'?"
    assert refused(log__segmnt__bytes="1") == closest
    assert refused(zookeeper__connect="x") == "There is no setting 'zookeeper.connect'."


@pytest.mark.parametrize("address", ["localhost:9092", "PLAINTEXT://a:1,", "PLAINTEXT://a:70000", ""])
def test_a_listener_is_an_address_with_a_name_and_a_port(address: str) -> None:
    assert "it must be addresses such as PLAINTEXT://localhost:9092" in refused(listeners=address)


def test_listeners_have_names_addresses_and_protocols_of_their_own() -> None:
    config = BrokerConfig.from_properties(
        {
            "listeners": "CLIENTS://:9092,BROKERS://:9093,QUORUM://:9094",
            "advertised.listeners": "CLIENTS://kafka.example:19092",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,brokers:ssl,QUORUM:SSL",
            "inter.broker.listener.name": "BROKERS",
            "controller.listener.names": "QUORUM",
        }
    )
    clients, brokers = Listener("CLIENTS", "kafka.example", 19092), Listener("BROKERS", "", 9093, "SSL")
    assert config.node.advertised == (clients, brokers)
    assert config.node.advertised_listener == brokers
    assert [each.port for each in config.node.bound_listeners] == [9092, 9093, 9094]
    assert (config.node.advertised_name("CLIENTS"), config.node.advertised_name("QUORUM")) == (
        "CLIENTS",
        "BROKERS",
    )


def test_brokers_find_their_listener_by_its_protocol() -> None:
    two = {"listeners": "PLAINTEXT://localhost:1,SSL://localhost:2"}
    assert BrokerConfig.from_properties(two).node.advertised_listener.port == 1
    config = BrokerConfig.from_properties({**two, "security.inter.broker.protocol": "SSL"})
    assert config.node.advertised_listener.port == 2


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "names the listener PLAINTEXT twice"),
        ({"listeners": "PLAINTEXT://a:1,SSL://a:1"}, "each listener needs an address of its own"),
        ({"listeners": "CLIENTS://a:1"}, "add it to listener.security.protocol.map"),
        ({"listener.security.protocol.map": "CLIENTS:TLS"}, "cannot have 'CLIENTS:TLS' in it"),
        ({"advertised.listeners": "SSL://a:1"}, "which is not in listeners"),
        ({"inter.broker.listener.name": "INSIDE"}, "brokers could not reach each other"),
        ({"controller.listener.names": "PLAINTEXT"}, "a broker needs one more"),
        ({"controller.listener.names": "SSL"}, "must have the protocol of the brokers' listener"),
    ],
)
def test_listeners_that_cannot_work_are_refused(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        BrokerConfig.from_properties(settings)


def test_a_listener_that_clients_could_not_reach_needs_an_advertised_address() -> None:
    assert "set advertised.listeners" in refused(listeners="PLAINTEXT://0.0.0.0:9092")
    config = BrokerConfig.from_properties(
        {"listeners": "PLAINTEXT://0.0.0.0:9092", "advertised.listeners": "PLAINTEXT://kafka.example:19092"}
    )
    assert config.node.advertised_listener == Listener("PLAINTEXT", "kafka.example", 19092)
    assert BrokerConfig.from_properties({"listeners": "PLAINTEXT://:9092"}).node.listener.host == ""


def test_two_data_directories_and_crossed_compaction_lags_are_refused() -> None:
    assert "one directory" in refused(log__dirs="/a,/b")
    lags = {"log__cleaner__min__compaction__lag__ms": "10", "log__cleaner__max__compaction__lag__ms": "5"}
    assert "cannot exceed" in refused(**lags)


def test_a_topic_takes_its_own_value_then_the_brokers() -> None:
    broker = BrokerConfig.from_properties({"log.segment.bytes": "1000", "compression.type": "zstd"})
    topic = TopicConfig.resolve(broker, {"segment.bytes": "2000"})
    assert (topic.segment_bytes, topic.compression_type) == (2000, "zstd")
    assert TopicConfig.resolve(BrokerConfig(), {}) == TopicConfig()
    assert TopicConfig.resolve(broker, {"cleanup.policy": ""}).cleanup_policy == ()


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.ms": "5", "log.retention.hours": "1", "log.retention.minutes": "2"}, 5),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_that_is_set_counts(properties: dict[str, str], retention_ms: int) -> None:
    assert TopicConfig.resolve(BrokerConfig.from_properties(properties), {}).retention_ms == retention_ms


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", "shred"),
        ("compression.type", "none"),
        ("retention.ms", "-2"),
        ("min.insync.replicas", "0"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("max.message.bytes", "-1"),
        ("segment.ms", "0"),
        ("retention", "1"),
    ],
)
def test_a_topic_setting_outside_kafkas_bounds_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TopicConfig.resolve(BrokerConfig(), {name: text})
    assert name in str(caught.value)


def test_crossed_session_timeouts_are_refused() -> None:
    assert "cannot exceed" in refused(group__max__session__timeout__ms="5000")


def test_a_topics_crossed_compaction_lags_are_refused() -> None:
    overrides = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}
    with pytest.raises(ConfigError, match=r"min.compaction.lag.ms \(10\) cannot exceed"):
        TopicConfig.resolve(BrokerConfig(), overrides).refuse_contradictions()


def test_properties_files_have_comments_continuations_and_escapes() -> None:
    text = "# a\n! b\n\nnum.partitions = 3\r\nlog.dirs:/x\\\n   /y\nbroker.rack r\\u0041\\\\ \n"
    assert parse_properties(text) == {"num.partitions": "3", "log.dirs": "/x/y", "broker.rack": "rA\\ "}
    assert parse_properties("last=1\\") == {"last": "1"}
    with pytest.raises(ConfigError, match="no setting's name"):
        parse_properties("=3")


@given(st.text())
def test_any_text_is_properties_or_a_refusal(text: str) -> None:
    with suppress(ConfigError):
        assert all(isinstance(value, str) for value in parse_properties(text).values())


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_a_rendered_file_reads_as_what_it_was_made_of(properties: dict[str, str]) -> None:
    assert parse_properties(render_properties(properties)) == properties


def test_environment_variables_name_settings_and_misspelt_ones_are_refused() -> None:
    environment = {"OTTLA_LOG_SEGMENT_BYTES": "99", "OTTLA_FLUSH_BYTES": "7", "PATH": "/bin"}
    assert properties_from_environment(environment) == {"log.segment.bytes": "99", "ottla.flush.bytes": "7"}
    with pytest.raises(ConfigError, match="did you mean 'OTTLA_NUM_PARTITIONS'"):
        properties_from_environment({"OTTLA_NUM_PARTITION": "1"})


def test_every_setting_is_declared_once_with_a_default_that_is_allowed_and_a_sentence() -> None:
    for cls in (BrokerConfig, TopicConfig):
        declared = settings_of(cls)
        assert len({item.name for item in declared}) == len(declared)
        for item in declared:
            assert item.value_in(cls()) == item.default, item.name
            words = item.attribute.rpartition(".")[2].split("_")
            assert set(words) <= set(item.name.split(".")), f"{item.attribute} does not recall {item.name}"
            assert item.doc.endswith("."), item.name
            text = item.render(item.default)
            assert text is None or item.parse(text) == item.default, item.name
            assert item.type in ConfigType


def test_a_topic_setting_has_the_type_of_the_broker_setting_that_is_its_default() -> None:
    topic_types, known = get_type_hints(TopicConfig), settings_by_name(BrokerConfig)
    for item in settings_of(TopicConfig):
        for name in item.synonyms:
            family, _, attribute = known[name].attribute.partition(".")
            declared = get_type_hints(type(getattr(BrokerConfig(), family)))[attribute]
            assert declared in (topic_types[item.attribute], topic_types[item.attribute] | None), item.name


def test_a_family_holds_what_was_given_and_the_other_families_are_untouched() -> None:
    config = BrokerConfig.from_properties({"group.max.size": "4", "offsets.retention.minutes": "5"})
    assert config.groups == GroupConfig(max_size=4, offsets_retention_minutes=5)
    assert config.groups.offsets_retention_ms == 300_000
    assert replace(config, groups=GroupConfig()) == BrokerConfig()


def test_a_family_is_a_value_that_does_not_change() -> None:
    groups = GroupConfig(max_size=4)
    with pytest.raises(FrozenInstanceError, match=r"GroupConfig\.max_size cannot be changed"):
        groups.max_size = 5  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match=r"GroupConfig\.max_size cannot be changed"):
        del groups.max_size
    with pytest.raises(TypeError, match="GroupConfig has no setting size"):
        GroupConfig(size=4)  # type: ignore[call-arg]
    assert {groups, GroupConfig(max_size=4)} == {groups}
    assert groups != GroupConfig()
    assert "max_size=4, offsets_retention_minutes=10080" in repr(groups)


def test_no_two_settings_share_an_environment_variable() -> None:
    names = [environment_name(item.name) for item in settings_of(BrokerConfig)]
    assert len(set(names)) == len(names)


def test_the_committed_reference_page_is_the_rendered_one() -> None:
    hint = "docs/settings.md is stale; run: .venv/bin/python docs/generators/settings.py"
    assert (DOCS / "settings.md").read_text(encoding="utf-8") == render_reference(), hint


def test_a_node_alone_is_its_own_quorum_and_does_everything() -> None:
    config = BrokerConfig.from_properties({})
    assert config.node.voters == ()
    assert config.node.is_broker
    assert config.node.is_voter


def test_voters_come_in_the_order_of_their_ids() -> None:
    config = BrokerConfig.from_properties({"controller.quorum.voters": "3@c:9, 1@a:7,2@[::1]:8"})
    assert config.node.voters == (Voter(1, "a", 7), Voter(2, "::1", 8), Voter(3, "c", 9))
    assert ",".join(map(str, config.node.voters)) == "1@a:7,2@[::1]:8,3@c:9"


@pytest.mark.parametrize(
    "voter", ["1", "1@a", "@a:1", "a:1", "1@a:0", "1@a:70000", "x@a:1", "1@:1", "1@a:1:2"]
)
def test_a_voter_is_a_node_id_and_an_address(voter: str) -> None:
    assert "each voter is a node id and an address, for example" in refused(controller__quorum__voters=voter)


def test_voters_that_make_no_quorum_are_refused() -> None:
    assert "names node 1 twice" in refused(controller__quorum__voters="1@a:1,1@b:2")
    six = ",".join(f"{node}@a:{node}" for node in range(1, 7))
    assert "names 6 voters: a quorum has at most 5." in refused(controller__quorum__voters=six)


def test_a_node_without_a_place_in_its_quorum_is_refused() -> None:
    assert "cannot be empty" in refused(process__roles=" , ")
    assert "must name the controllers" in refused(process__roles="broker")
    assert "add it there" in refused(controller__quorum__voters="2@a:1")
    voter = {"controller__quorum__voters": "1@a:1", "process__roles": "broker"}
    assert "add controller to process.roles" in refused(**voter)
    observer = BrokerConfig.from_properties(
        {"node.id": "4", "process.roles": "broker", "controller.quorum.voters": "1@a:1"}
    )
    assert (observer.node.is_broker, observer.node.is_voter) == (True, False)


def test_nodes_with_the_same_voters_derive_the_same_cluster_id() -> None:
    texts = ("1@a:1,2@b:2", "2@b:2, 1@a:1", "1@a:1,2@b:3")
    one, same, other = (
        derived_cluster_id(BrokerConfig.from_properties({"controller.quorum.voters": text}).node.voters)
        for text in texts
    )
    assert one == same != other
    assert len(one) == 22
    assert "1 to 64 letters" in refused(ottla__cluster__id="my cluster")


def test_heartbeats_rarer_than_the_session_lasts_are_refused() -> None:
    times = {"broker__heartbeat__interval__ms": "5000", "broker__session__timeout__ms": "4000"}
    assert "broker.heartbeat.interval.ms (5000) cannot exceed broker.session.timeout.ms" in refused(**times)
    assert "cannot exceed" in refused(replica__lag__time__max__ms="100")


@pytest.mark.parametrize(
    "properties",
    [
        {"node.id": "1"},
        {"node.id": "4", "process.roles": "broker"},
        {"node.id": "4", "controller.quorum.voters": ""},
    ],
)
def test_a_standby_controller_is_not_among_the_voters(properties: dict[str, str]) -> None:
    standby = {"ottla.controller.standby": "true", "controller.quorum.voters": "1@one:9092"}
    assert BrokerConfig.from_properties({**standby, "node.id": "4"}).node.is_voter
    with pytest.raises(ConfigError, match="standby"):
        BrokerConfig.from_properties({**standby, **properties})


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            {"ssl.keystore.type": "JKS"},
            "only PEM is read. Export the store, for example with `openssl pkcs12",
        ),
        ({"ssl.truststore.type": "PKCS12"}, "only PEM is read. Export the store"),
        ({"ssl.client.auth": "required"}, "ssl.client.auth=required needs ssl.truststore.location"),
        ({"ssl.client.auth": "sometimes"}, "one of: none, requested, required"),
        ({"ottla.ssl.key.file": "k"}, "ottla.ssl.key.file needs ottla.ssl.certificate.file"),
        ({"ssl.keystore.key": "SECRET"}, "must be set together"),
        (
            {"ssl.keystore.location": "a", "ottla.ssl.certificate.file": "b"},
            "Only one of ssl.keystore.location and ottla.ssl.certificate.file",
        ),
        ({"ssl.truststore.location": "a", "ssl.truststore.certificates": "b"}, "Only one of"),
        ({"ssl.key.password": "SECRET", "ottla.ssl.key.password.file": "f"}, "Only one of"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "a list of: TLSv1.2, TLSv1.3"),
        ({"ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLSv1.2"}, "leave no version of TLS"),
    ],
)
def test_settings_of_tls_that_cannot_work_are_refused_and_no_secret_is_repeated(
    settings: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_properties(settings)
    assert complaint in str(refused.value)
    assert "SECRET" not in str(refused.value)


def test_a_configuration_shows_no_secret() -> None:
    config = BrokerConfig.from_properties(
        {
            "ssl.keystore.key": "SECRET",
            "ssl.keystore.certificate.chain": "SECRET",
            "ssl.key.password": "SECRET",
            "ssl.truststore.location": "trusted.pem",
        }
    )
    assert "SECRET" not in repr(config)
    assert "key_password=(hidden)" in repr(config)
    assert "trusted.pem" in repr(config)
    assert "key_password=None" in repr(BrokerConfig())


def test_retention_deletes_up_to_what_a_required_table_holds() -> None:
    free = TopicConfig.resolve(BrokerConfig(), {"ottla.retention.table.offsets": "0:5"})
    assert free.deletable_up_to(0, 9) == 9
    waits = TopicConfig.resolve(
        BrokerConfig(), {"ottla.retention.requires": "table", "ottla.retention.table.offsets": "0:5,2:20"}
    )
    assert [waits.deletable_up_to(partition, 9) for partition in range(3)] == [5, 0, 9]
