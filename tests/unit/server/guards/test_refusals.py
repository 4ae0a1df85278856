"""Refusals say their error in every version that has a place for it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.checked_requests import all_requests

from ottla.protocol.apis import ApiKey, api_of
from ottla.protocol.codec import decode, encode
from ottla.protocol.messages.partitions import ElectLeadersRequest, TopicPartitions
from ottla.security.acl.checks import CHECKS, Refusal
from ottla.server.guards.refusals import refusal

# As in Kafka: the answers of these versions have no place for the error, and are empty.
WITHOUT_PLACE = {(ApiKey.DESCRIBE_LOG_DIRS, 1), (ApiKey.DESCRIBE_LOG_DIRS, 2)}
# Their guards answer by themselves.
WITHOUT_MESSAGE = {ApiKey.FETCH, ApiKey.ADD_PARTITIONS_TO_TXN}
ELECTION = ElectLeadersRequest(0, [TopicPartitions("walk", [0])])


def sent(answer: Any, key: ApiKey, version: int) -> Any:
    """An answer as its client reads it."""
    api = api_of(key)
    assert api is not None
    return decode(api.response, encode(answer, version), version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_election_is_refused_for_each_partition_because_version_0_has_no_other_place(version: int) -> None:
    error = CHECKS[ApiKey.ELECT_LEADERS][0].error
    answer = sent(refusal(ELECTION, error, version), ApiKey.ELECT_LEADERS, version)
    assert answer.replica_election_results[0].partition_result[0].error_code == error


def test_every_version_of_an_api_that_refuses_whole_requests_has_a_place_for_the_error() -> None:
    silent = set()
    for asked in all_requests():
        api, check = api_of(asked.api), CHECKS[asked.api][asked.checks[0]]
        if api is None or len(asked.checks) > 1 or check.refusal is not Refusal.WHOLE:
            continue
        if asked.api in WITHOUT_MESSAGE:
            continue
        request = ELECTION if asked.api is ApiKey.ELECT_LEADERS else asked.request(0)
        for version in range(api.min_version, api.max_version + 1):
            answer = sent(refusal(request, check.error, version), asked.api, version)
            if str(int(check.error)) not in repr(answer):
                silent.add((asked.api, version))
    assert silent == WITHOUT_PLACE
