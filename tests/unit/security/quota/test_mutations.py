"""Quotas of created and deleted partitions: strict for clients that know the error, and permissive (OPS-4, KIP-599)."""

from __future__ import annotations

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.security.quota.entities import ClientQuotas
from ottla.security.quota.mutations import Asker, MutationQuota, MutationQuotas

ALICE = Asker("alice", "shop")
QUOTAS: ClientQuotas = {(("user", "alice"),): {"controller_mutation_rate": 2.0}}


def quota(quotas: MutationQuotas, now_ms: int, is_strict: bool = True) -> MutationQuota:
    found = quotas.of_request(QUOTAS, ALICE, now_ms, is_strict=is_strict)
    assert found is not None
    return found


def test_the_topic_that_uses_a_quota_up_is_changed_whole_and_the_next_one_is_refused() -> None:
    quotas = MutationQuotas(burst_s=5)
    first = quota(quotas, 0)
    first.charge(3)
    first.charge(13)
    assert first.throttle_ms == 0
    with pytest.raises(KafkaError, match="used up: try again in 3001 ms") as refused:
        first.charge(1)
    assert (refused.value.code, first.throttle_ms) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 3001)
    with pytest.raises(KafkaError):
        quota(quotas, 2000).charge(1)
    later = quota(quotas, 3001)
    later.charge(1)
    assert later.throttle_ms == 0


def test_a_client_that_does_not_know_the_error_is_throttled_and_never_refused() -> None:
    quotas = MutationQuotas(burst_s=5)
    old = quota(quotas, 0, is_strict=False)
    old.charge(10)
    assert old.throttle_ms == 0
    old.charge(4)
    assert old.throttle_ms == 2001
    old.charge(4)
    assert old.throttle_ms == 4001


def test_a_client_without_a_quota_is_not_counted() -> None:
    assert MutationQuotas(5).of_request(QUOTAS, Asker("bob", "shop"), 0, is_strict=True) is None
    assert MutationQuotas(5).of_request({}, ALICE, 0, is_strict=True) is None
