"""AlterClientQuotas decides records, and DescribeClientQuotas finds quotas (OPS-4, KIP-546)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.unit.controller.cluster import Cluster

from ottla.controller.client_quotas import describe_client_quotas
from ottla.errors import ErrorCode
from ottla.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"


def entry(entity: dict[str, str | None], **values: float | None) -> EntryData:
    return EntryData(
        [EntityData(kind, name) for kind, name in entity.items()],
        [OpData(key, value or 0.0, remove=value is None) for key, value in values.items()],
    )


def alter(cluster: Cluster, *entries: EntryData, validate_only: bool = False) -> list[Any]:
    response: Any = cluster.commit(AlterClientQuotasRequest([*entries], validate_only))
    return list(response.entries)


def test_quotas_are_set_changed_and_removed() -> None:
    cluster = Cluster(brokers=1)
    alice: dict[str, str | None] = {"user": "alice", "client-id": None}
    alter(cluster, entry(alice, producer_byte_rate=1000, consumer_byte_rate=5), entry({"user": None}))
    entity = (("client-id", None), ("user", "alice"))
    assert cluster.image.client_quotas == {entity: {PRODUCE: 1000.0, FETCH: 5.0}}
    quotas = cluster.image.client_quotas
    alter(cluster, entry(alice, producer_byte_rate=1000), entry({"user": "bob"}, producer_byte_rate=None))
    assert cluster.image.client_quotas is quotas
    alter(cluster, entry(alice, producer_byte_rate=7), validate_only=True)
    assert cluster.image.client_quotas is quotas
    alter(cluster, entry(alice, producer_byte_rate=None))
    assert cluster.image.client_quotas == {entity: {FETCH: 5.0}}
    alter(cluster, entry(alice, consumer_byte_rate=None))
    assert cluster.image.client_quotas == {}


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (entry({}, producer_byte_rate=1), "An entity needs a user, a client-id or an ip"),
        (entry({"group": "g"}, producer_byte_rate=1), "'group' has no quotas"),
        (entry({"user": ""}, producer_byte_rate=1), "must not be empty"),
        (entry({"user": "a", "ip": "10.0.0.1"}, producer_byte_rate=1), "by itself"),
        (entry({"user": "a"}, producer_byte_rate=0), "above 0, not 0.0"),
        (entry({"user": "a"}, producer_byte_rate=1.5), "a whole number of bytes"),
        (entry({"user": "a"}, producer_byte_rate=-5), "above 0, not -5"),
        (entry({"user": "a"}, producer_byte_rate=math.inf), "a whole number of bytes"),
        (
            entry({"user": "a"}, request_percentage=-1),
            "must be a number of percent of a broker's time above 0",
        ),
        (
            entry({"user": "a"}, controller_mutation_rate=math.inf),
            "of partitions per second above 0, not inf",
        ),
        (entry({"user": "a"}, connection_creation_rate=5), "is no quota of a user, only producer_byte_rate"),
        (entry({"ip": "10.0.0.1"}, connection_creation_rate=0.5), "a whole number of connections per second"),
        (
            entry({"ip": "10.0.0.1"}, producer_byte_rate=5),
            "is no quota of a ip, only connection_creation_rate",
        ),
        (entry({"ip": "example.org"}, connection_creation_rate=5), "'example.org' is no address"),
        (entry({"user": "a"}, nonsense=5), "'nonsense' is no quota of a user"),
    ],
)
def test_a_quota_that_makes_no_sense_or_has_no_effect_is_refused(refused: EntryData, said: str) -> None:
    cluster = Cluster(brokers=1)
    wrong, right = alter(cluster, refused, entry({"user": "fine"}, producer_byte_rate=1))
    assert wrong.error_code == ErrorCode.INVALID_REQUEST
    assert said in wrong.error_message
    assert right.error_code == ErrorCode.NONE
    assert list(cluster.image.client_quotas) == [(("user", "fine"),)]


def test_quotas_of_every_key_are_kept_and_addresses_in_one_form() -> None:
    cluster = Cluster(brokers=1)
    outcomes = alter(
        cluster,
        entry({"user": "a"}, request_percentage=12.5, controller_mutation_rate=0.5),
        entry({"ip": "::FFFF:10.0.0.1"}, connection_creation_rate=5),
        entry({"ip": "2001:DB8:0::7"}, connection_creation_rate=6),
        entry({"ip": None}, connection_creation_rate=7),
    )
    assert [each.error_code for each in outcomes] == [0, 0, 0, 0]
    assert cluster.image.client_quotas == {
        (("user", "a"),): {"request_percentage": 12.5, "controller_mutation_rate": 0.5},
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 5},
        (("ip", "2001:db8::7"),): {"connection_creation_rate": 6},
        (("ip", None),): {"connection_creation_rate": 7},
    }


def test_one_entity_or_one_quota_twice_is_refused() -> None:
    cluster = Cluster(brokers=1)
    one = entry({"user": "a"}, producer_byte_rate=1)
    twice = entry({"user": "b"}, producer_byte_rate=1)
    twice.ops.append(OpData(PRODUCE, 2.0))
    results = alter(cluster, one, one, twice)
    assert [bool(each.error_code) for each in results] == [False, True, True]


def found(cluster: Cluster, *components: ComponentData, strict: bool = False) -> list[dict[str, str | None]]:
    response = describe_client_quotas(cluster.image, DescribeClientQuotasRequest([*components], strict))
    assert response.entries is not None, response
    return [{part.entity_type: part.entity_name for part in each.entity} for each in response.entries]


def test_a_description_finds_by_name_by_default_and_any() -> None:
    cluster = Cluster(brokers=1)
    entities: list[dict[str, str | None]] = [
        {"client-id": "shop"},
        {"client-id": "shop", "user": "alice"},
        {"user": "alice"},
        {"user": None},
    ]
    alter(cluster, *(entry(each, producer_byte_rate=1) for each in entities))
    shop, both, alice, everybody = entities
    assert found(cluster) == [both, shop, alice, everybody]
    assert found(cluster, ComponentData("user", 0, "alice")) == [both, alice]
    assert found(cluster, ComponentData("user", 0, "alice"), strict=True) == [alice]
    assert found(cluster, ComponentData("user", 1, None)) == [everybody]
    assert found(cluster, ComponentData("user", 2, None), strict=True) == [alice, everybody]
    named = ComponentData("user", 0, "alice"), ComponentData("client-id", 0, "shop")
    assert found(cluster, *named, strict=True) == [both]
    assert found(cluster, strict=True) == []


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([ComponentData("group", 2, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([ComponentData("user", 0, "")], ErrorCode.INVALID_REQUEST),
        ([ComponentData("user", 9, "")], ErrorCode.INVALID_REQUEST),
        ([ComponentData("user", 2, None), ComponentData("user", 1, None)], ErrorCode.INVALID_REQUEST),
        ([ComponentData("user", 2, None), ComponentData("ip", 1, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(components: list[ComponentData], error: ErrorCode) -> None:
    response = describe_client_quotas(Cluster(brokers=1).image, DescribeClientQuotasRequest(components))
    assert (response.error_code, response.entries) == (error, None)
