"""Questions and answers as Kafka's messages: nothing is lost on the way, and what is not for this quorum is
refused.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.quorum.codec import CLUSTER_ID, coded

from ottla.errors import ErrorCode, KafkaError
from ottla.model import EpochEnd
from ottla.protocol.messages.quorum import VoteRequest, VoteResponse
from ottla.raft.messages import (
    BeginEpoch,
    EndEpoch,
    EpochAnswer,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    ReplicaKey,
    SnapshotId,
    Vote,
    VoteAnswer,
)
from ottla.raft.requests import read_request, request_message
from ottla.raft.responses import read_response

INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(0, 2**63 - 1)
KEYS = st.builds(ReplicaKey, INT32, st.uuids(allow_nil=True))
NODES = st.none() | INT32
ERRORS = st.sampled_from(ErrorCode)
EPOCHS = st.integers(-1, 2**31 - 1)
SNAPSHOTS = st.builds(SnapshotId, INT64, INT32)
BYTES = st.binary(max_size=9)

VOTES = st.builds(Vote, INT32, INT32, KEYS, EPOCHS, INT64, st.booleans())
BEGINS = st.builds(BeginEpoch, INT32, INT32, INT32)
ENDS = st.builds(EndEpoch, INT32, INT32, st.lists(KEYS, max_size=4).map(tuple))
FETCHES = st.builds(Fetch, KEYS, st.booleans(), INT32, INT64, EPOCHS, INT64, INT32, INT32)
PIECES = st.builds(FetchSnapshot, KEYS, INT32, SNAPSHOTS, INT64, INT32)

ANSWERS: list[st.SearchStrategy[Any]] = [
    st.tuples(VOTES, st.builds(VoteAnswer, ERRORS, INT32, NODES, st.booleans())),
    st.tuples(BEGINS | ENDS, st.builds(EpochAnswer, ERRORS, INT32, NODES)),
    st.tuples(
        FETCHES,
        st.builds(
            FetchAnswer,
            ERRORS,
            INT32,
            NODES,
            INT64,
            INT64,
            st.none() | st.builds(EpochEnd, EPOCHS, INT64),
            st.none() | SNAPSHOTS,
            BYTES,
        ),
    ),
    st.tuples(PIECES, st.builds(FetchSnapshotAnswer, ERRORS, INT32, NODES, SNAPSHOTS, INT64, INT64, BYTES)),
]


@given(st.one_of(VOTES, BEGINS, ENDS, FETCHES, PIECES))
def test_a_question_arrives_as_it_was_asked(request: Any) -> None:
    assert coded(request, None) == request


@given(st.one_of(ANSWERS))
def test_an_answer_arrives_as_it_was_given(pair: tuple[Any, Any]) -> None:
    request, answer = pair
    assert coded(answer, request) == answer


def test_a_question_of_another_cluster_is_refused() -> None:
    message = request_message(BeginEpoch(1, 2, 3), "another")
    with pytest.raises(KafkaError) as refusal:
        read_request(message, CLUSTER_ID)
    assert refusal.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_question_about_another_partition_is_refused() -> None:
    with pytest.raises(KafkaError) as refusal:
        read_request(VoteRequest(CLUSTER_ID), CLUSTER_ID)
    assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_answer_that_is_an_error_is_raised() -> None:
    with pytest.raises(KafkaError) as refusal:
        read_response(VoteResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert refusal.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_an_error_that_we_do_not_know_is_one_all_the_same() -> None:
    with pytest.raises(KafkaError) as refusal:
        read_response(VoteResponse(9_999))
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
