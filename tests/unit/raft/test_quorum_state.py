"""The file that keeps a voter's promises."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.codec import declaration_of
from ottla.protocol.layout import layout
from ottla.raft.messages import ReplicaKey
from ottla.raft.quorum_state import (
    QuorumState,
    QuorumStateData,
    QuorumStateError,
    parse,
    render,
)

IDS = st.integers(0, 2**31 - 1)
KEYS = st.builds(ReplicaKey, IDS, st.uuids(allow_nil=True))


@given(st.builds(QuorumState, IDS, st.none() | KEYS, st.none() | IDS))
def test_what_is_written_is_read_back(state: QuorumState) -> None:
    assert parse(render(state)) == state


def test_it_has_the_fields_and_the_version_that_kafka_writes() -> None:
    content = json.loads(render(QuorumState(7, ReplicaKey(3, UUID(int=5)), 2)))
    assert content == {
        "leaderId": 2,
        "leaderEpoch": 7,
        "votedId": 3,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAABQ",
        "data_version": 1,
    }
    version = content["data_version"]
    assert declaration_of(QuorumStateData).versions[1] == version
    names = [field.name for field in layout(QuorumStateData, version).plain]
    assert [name.replace("_", "") for name in names] == [
        name.lower() for name in content if name != "data_version"
    ]


def test_the_older_version_of_the_file_is_read() -> None:
    old = (
        b'{"clusterId":"","leaderId":-1,"leaderEpoch":4,"votedId":2,"appliedOffset":0,"currentVoters":'
        b'[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert parse(old) == QuorumState(4, ReplicaKey(2), None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"7",
        b'{"leaderEpoch":"x"}',
        b'{"leaderEpoch":-1}',
        b'{"leaderEpoch":1,"votedId":null}',
        b'{"leaderEpoch":1,"votedDirectoryId":"x"}',
        b"\xff\x00",
    ],
)
def test_anything_else_is_a_lost_memory(data: bytes) -> None:
    with pytest.raises(QuorumStateError, match="quorum-state"):
        parse(data)
