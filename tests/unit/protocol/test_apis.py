"""Which APIs are served, in which versions, and which are advertised (WIRE-2)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.protocol.apis import (
    APIS,
    DECLARED_APIS,
    INTERNAL_APIS,
    OWN_APIS,
    QUORUM_APIS,
    Api,
    ApiKey,
    api_of,
)
from ottla.protocol.codec import declaration_of


@pytest.mark.parametrize("api", DECLARED_APIS.values(), ids=repr)
def test_the_table_says_what_the_messages_declare(api: Api) -> None:
    declared = (api.key, (api.min_version, api.max_version), api.first_flexible_version)
    assert tuple(declaration_of(api.request)) == declared
    assert tuple(declaration_of(api.response)) == declared


def test_the_table_is_there_before_its_messages() -> None:
    program = "import sys, ottla.protocol.frame; print([m for m in sys.modules if '.messages.' in m])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_only_produce_claims_more_than_is_served() -> None:
    claims = {api.key.name for api in APIS.values() if api.advertised_min_version != api.min_version}
    assert claims == {"PRODUCE"}
    produce = APIS[0]
    assert (produce.advertised_min_version, produce.min_version, produce.max_version) == (0, 3, 13)
    assert not produce.serves(2)
    assert produce.serves(3)
    assert not produce.serves(14)


def test_an_api_stands_in_one_table() -> None:
    tables = (APIS, INTERNAL_APIS, QUORUM_APIS, OWN_APIS)
    assert len(DECLARED_APIS) == sum(map(len, tables))


def test_what_nodes_ask_each_other_is_not_advertised() -> None:
    assert {api.key.name for api in (*INTERNAL_APIS.values(), *QUORUM_APIS.values())} == {
        "ALTER_PARTITION",
        "ENVELOPE",
        "BROKER_REGISTRATION",
        "BROKER_HEARTBEAT",
        "ALLOCATE_PRODUCER_IDS",
        "ASSIGN_REPLICAS_TO_DIRS",
        "ALTER_REMOTE_LOG",
        "VOTE",
        "BEGIN_QUORUM_EPOCH",
        "END_QUORUM_EPOCH",
        "FETCH_SNAPSHOT",
    }


def test_any_declared_api_is_found_by_its_key() -> None:
    for key in (ApiKey.PRODUCE, ApiKey.ELECT_LEADERS, ApiKey.BROKER_HEARTBEAT, ApiKey.VOTE):
        found = api_of(key)
        assert found is not None
        assert found.key == key
    assert api_of(ApiKey.LEADER_AND_ISR) is None
    assert api_of(-1) is None


SERVED = {
    "PRODUCE": (3, 13),
    "CREATE_DELEGATION_TOKEN": (1, 3),
    "RENEW_DELEGATION_TOKEN": (1, 2),
    "EXPIRE_DELEGATION_TOKEN": (1, 2),
    "DESCRIBE_DELEGATION_TOKEN": (1, 3),
    "FETCH": (4, 18),
    "LIST_OFFSETS": (1, 11),
    "METADATA": (0, 13),
    "FIND_COORDINATOR": (0, 6),
    "SASL_HANDSHAKE": (0, 1),
    "API_VERSIONS": (0, 4),
    "SASL_AUTHENTICATE": (0, 2),
    "CREATE_TOPICS": (2, 7),
    "DELETE_TOPICS": (1, 6),
    "DELETE_RECORDS": (0, 2),
    "INIT_PRODUCER_ID": (0, 6),
    "OFFSET_FOR_LEADER_EPOCH": (2, 4),
    "WRITE_TXN_MARKERS": (1, 2),
    "DESCRIBE_PRODUCERS": (0, 0),
    "DESCRIBE_CONFIGS": (1, 4),
    "ALTER_CONFIGS": (0, 2),
    "DESCRIBE_LOG_DIRS": (1, 5),
    "CREATE_PARTITIONS": (0, 3),
    "INCREMENTAL_ALTER_CONFIGS": (0, 1),
    "DESCRIBE_CLUSTER": (0, 2),
    "LIST_CONFIG_RESOURCES": (0, 1),
    "DESCRIBE_TOPIC_PARTITIONS": (0, 0),
    "OFFSET_COMMIT": (2, 10),
    "OFFSET_FETCH": (1, 10),
    "JOIN_GROUP": (0, 9),
    "HEARTBEAT": (0, 4),
    "LEAVE_GROUP": (0, 5),
    "SYNC_GROUP": (0, 5),
    "DESCRIBE_GROUPS": (0, 6),
    "LIST_GROUPS": (0, 5),
    "DELETE_GROUPS": (0, 2),
    "OFFSET_DELETE": (0, 0),
    "ELECT_LEADERS": (0, 2),
    "ALTER_PARTITION_REASSIGNMENTS": (0, 1),
    "LIST_PARTITION_REASSIGNMENTS": (0, 0),
    "DESCRIBE_QUORUM": (0, 2),
    "UPDATE_FEATURES": (0, 2),
    "UNREGISTER_BROKER": (0, 0),
    "ADD_RAFT_VOTER": (0, 1),
    "REMOVE_RAFT_VOTER": (0, 0),
    "ADD_PARTITIONS_TO_TXN": (0, 5),
    "ADD_OFFSETS_TO_TXN": (0, 4),
    "END_TXN": (0, 5),
    "TXN_OFFSET_COMMIT": (0, 5),
    "DESCRIBE_TRANSACTIONS": (0, 0),
    "LIST_TRANSACTIONS": (0, 2),
    "DESCRIBE_USER_SCRAM_CREDENTIALS": (0, 0),
    "ALTER_USER_SCRAM_CREDENTIALS": (0, 0),
    "DESCRIBE_CLIENT_QUOTAS": (0, 1),
    "ALTER_CLIENT_QUOTAS": (0, 1),
    "DESCRIBE_ACLS": (1, 3),
    "CREATE_ACLS": (1, 3),
    "DELETE_ACLS": (1, 3),
    "GET_TELEMETRY_SUBSCRIPTIONS": (0, 0),
    "PUSH_TELEMETRY": (0, 0),
}


def test_the_served_versions_are_those_that_clients_look_for() -> None:
    served = {api.key.name: (api.min_version, api.max_version) for api in APIS.values()}
    assert served == SERVED
