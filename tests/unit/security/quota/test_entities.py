"""Of several quotas the most specific one is in force, in Kafka's order (OPS-4)."""

from __future__ import annotations

from ottla.security.quota.entities import PRODUCER_BYTE_RATE, entity_of, limit_of

# From the strongest to the weakest, with who shares the quota.
ORDER: list[tuple[dict[str, str | None], tuple[str | None, str | None]]] = [
    ({"user": "alice", "client-id": "shop"}, ("alice", "shop")),
    ({"user": "alice", "client-id": None}, ("alice", "shop")),
    ({"user": "alice"}, ("alice", None)),
    ({"user": None, "client-id": "shop"}, ("alice", "shop")),
    ({"user": None, "client-id": None}, ("alice", "shop")),
    ({"user": None}, ("alice", None)),
    ({"client-id": "shop"}, (None, "shop")),
    ({"client-id": None}, (None, "shop")),
]


def test_the_most_specific_quota_is_in_force() -> None:
    for place in range(len(ORDER)):
        quotas = {
            entity_of(parts): {PRODUCER_BYTE_RATE: float(rate)}
            for rate, (parts, _) in enumerate(ORDER)
            if rate >= place
        }
        limit = limit_of(quotas, PRODUCER_BYTE_RATE, "alice", "shop")
        assert limit == (ORDER[place][1], float(place))


def test_a_quota_of_somebody_else_or_for_something_else_does_not_count() -> None:
    quotas = {
        entity_of({"user": "bob"}): {PRODUCER_BYTE_RATE: 1.0},
        entity_of({"client-id": "other"}): {PRODUCER_BYTE_RATE: 1.0},
        entity_of({"user": "alice"}): {"consumer_byte_rate": 1.0},
        entity_of({"ip": None}): {PRODUCER_BYTE_RATE: 1.0},
    }
    assert limit_of(quotas, PRODUCER_BYTE_RATE, "alice", "shop") is None
    assert limit_of({}, PRODUCER_BYTE_RATE, "alice", "") is None
