"""Which APIs are served, in which versions, and what clients are told of them (WIRE-2)."""

from __future__ import annotations

from ottla.protocol.apis import APIS, INTERNAL_APIS, ApiKey


def test_only_produce_claims_more_than_is_served() -> None:
    claims = {api.key.name for api in APIS.values() if api.advertised_min_version != api.min_version}
    assert claims == {"PRODUCE"}
    produce = APIS[0]
    assert (produce.advertised_min_version, produce.min_version, produce.max_version) == (0, 3, 13)
    assert not produce.serves(2)
    assert produce.serves(3)
    assert not produce.serves(14)


def test_commands_to_the_controller_are_not_served() -> None:
    assert set(INTERNAL_APIS) == {ApiKey.BROKER_REGISTRATION, ApiKey.ALLOCATE_PRODUCER_IDS}
    assert not set(INTERNAL_APIS) & set(APIS)


def test_the_served_versions_are_those_that_clients_look_for() -> None:
    served = {api.key.name: (api.min_version, api.max_version) for api in APIS.values()}
    assert served == {
        "PRODUCE": (3, 13),
        "FETCH": (4, 18),
        "LIST_OFFSETS": (1, 11),
        "METADATA": (0, 13),
        "FIND_COORDINATOR": (0, 6),
        "API_VERSIONS": (0, 4),
        "CREATE_TOPICS": (2, 7),
        "DELETE_TOPICS": (1, 6),
        "DELETE_RECORDS": (0, 2),
        "INIT_PRODUCER_ID": (0, 5),
        "OFFSET_FOR_LEADER_EPOCH": (2, 4),
        "DESCRIBE_CONFIGS": (1, 4),
        "ALTER_CONFIGS": (0, 2),
        "DESCRIBE_LOG_DIRS": (1, 5),
        "CREATE_PARTITIONS": (0, 3),
        "INCREMENTAL_ALTER_CONFIGS": (0, 1),
        "DESCRIBE_CLUSTER": (0, 2),
        "LIST_CONFIG_RESOURCES": (0, 1),
        "DESCRIBE_TOPIC_PARTITIONS": (0, 0),
    }
