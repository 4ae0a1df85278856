"""The coordinator's errors in the words of Produce, by version (EOS-1)."""

import pytest

from ottla.errors import ErrorCode
from ottla.server.apis.produce_verification import answer_to


@pytest.mark.parametrize(
    ("found", "answers"),
    [
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            {10: ErrorCode.INVALID_TXN_STATE, 11: ErrorCode.TRANSACTION_ABORTABLE},
        ),
        (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            {11: ErrorCode.NOT_ENOUGH_REPLICAS, 12: ErrorCode.CONCURRENT_TRANSACTIONS},
        ),
        (ErrorCode.NOT_COORDINATOR, {9: ErrorCode.NOT_ENOUGH_REPLICAS, 13: ErrorCode.NOT_ENOUGH_REPLICAS}),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {13: ErrorCode.NOT_ENOUGH_REPLICAS}),
        (ErrorCode.PRODUCER_FENCED, {9: ErrorCode.INVALID_PRODUCER_EPOCH}),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, {9: ErrorCode.INVALID_PRODUCER_ID_MAPPING}),
    ],
)
def test_a_producer_hears_what_its_version_knows(found: ErrorCode, answers: dict[int, ErrorCode]) -> None:
    assert {version: answer_to(found, version).code for version in answers} == answers
