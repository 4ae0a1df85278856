"""Groups and their offsets through the administrator's client."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.client.admin.test_admin import asked, cluster_of, led
from tests.unit.wire.fake_broker import HANG_UP, FakeBroker, all_versions

from ottla.client.requests.consumer_protocol import encode_assignment
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.groups import GroupDescription, GroupListing, MemberDescription
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.frame import RequestHeader
from ottla.protocol.messages import api_versions, cluster, coordinator, fetch, group_admin, groups, offsets
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.wire.stream import ConnectionLostError

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def coordinating(broker: FakeBroker) -> FakeBroker:
    """Broker 1 coordinates every group."""

    def answer(request: coordinator.FindCoordinatorRequest, header: RequestHeader) -> Any:
        keys = request.coordinator_keys or [request.key]
        found = [
            coordinator.Coordinator(key=key, node_id=1, host="127.0.0.1", port=broker.port) for key in keys
        ]
        return coordinator.FindCoordinatorResponse(
            node_id=1,
            host="127.0.0.1",
            port=broker.port,
            coordinators=found if header.api_version >= 4 else [],
        )

    return cluster_of(broker, led(0), led(1)).on(coordinator.FindCoordinatorRequest, answer)


def offering(broker: FakeBroker, **newest: int) -> FakeBroker:
    """A broker whose APIs end at older versions; `k9=7` for API key 9."""
    offered = all_versions()
    for each in offered.api_keys:
        each.max_version = newest.get(f"k{each.api_key}", each.max_version)
    return broker.on(api_versions.ApiVersionsRequest, offered)


def test_groups_are_listed_by_name_from_every_broker() -> None:
    listed = [
        group_admin.ListedGroup(
            group_id=name, group_state="Stable", group_type="classic", protocol_type="consumer"
        )
        for name in ("b", "a")
    ]
    broker = coordinating(FakeBroker())
    itself = cluster.DescribeClusterBroker(broker_id=1, host="127.0.0.1", port=1)
    broker.on(cluster.DescribeClusterRequest, cluster.DescribeClusterResponse(brokers=[itself]))
    broker.on(group_admin.ListGroupsRequest, group_admin.ListGroupsResponse(groups=listed))
    found = asked(broker, lambda admin: admin.list_groups(states=["Stable"]))
    assert found == [GroupListing(name, "Stable", "classic", "consumer") for name in ("a", "b")]
    assert broker.asked_for(group_admin.ListGroupsRequest)[0].states_filter == ["Stable"]


def described(state: str, code: int = 0, *members: group_admin.DescribedGroupMember) -> Any:
    group = group_admin.DescribedGroup(
        group_id="g",
        group_state=state,
        error_code=code,
        protocol_type="consumer",
        protocol_data="range",
        members=list(members),
    )
    return group_admin.DescribeGroupsResponse(groups=[group])


def test_a_group_is_described_with_its_members_and_what_they_were_given() -> None:
    member = group_admin.DescribedGroupMember(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        member_assignment=encode_assignment([T0, T1]),
    )
    odd = group_admin.DescribedGroupMember(member_id="odd", member_assignment=b"\xff")
    broker = coordinating(FakeBroker())
    broker.on(group_admin.DescribeGroupsRequest, described("Stable", 0, member, odd))
    outcomes = asked(broker, lambda admin: admin.describe_groups(["g"]))
    assert outcomes["g"] == GroupDescription(
        "g",
        "Stable",
        "consumer",
        "range",
        1,
        (MemberDescription("m", "i", "c", "/h", (T0, T1)), MemberDescription("odd", None, "", "", ())),
    )


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND])
def test_a_group_that_is_not_there_is_an_error_in_every_version(code: ErrorCode) -> None:
    broker = coordinating(FakeBroker()).on(group_admin.DescribeGroupsRequest, described("Dead", code))
    outcome = asked(broker, lambda admin: admin.describe_groups(["g"]))["g"]
    assert isinstance(outcome, KafkaError)
    assert (outcome.code, outcome.message) == (ErrorCode.GROUP_ID_NOT_FOUND, 'there is no group "g"')


def test_a_coordinator_that_moved_is_found_again() -> None:
    answers = [described("", ErrorCode.NOT_COORDINATOR), described("Empty")]
    broker = coordinating(FakeBroker()).on(group_admin.DescribeGroupsRequest, lambda *_: answers.pop(0))
    outcome = asked(broker, lambda admin: admin.describe_groups(["g"]))["g"]
    assert isinstance(outcome, GroupDescription)
    assert len(broker.asked_for(coordinator.FindCoordinatorRequest)) == 2


def test_old_brokers_are_asked_for_one_coordinator_at_a_time() -> None:
    broker = offering(coordinating(FakeBroker()), k10=3)
    results = [group_admin.DeletableGroupResult(group_id=name) for name in ("a", "b")]
    broker.on(group_admin.DeleteGroupsRequest, group_admin.DeleteGroupsResponse(results=results))
    assert asked(broker, lambda admin: admin.delete_groups(["a", "b"])) == {"a": None, "b": None}
    assert [each.key for each in broker.asked_for(coordinator.FindCoordinatorRequest)] == ["a", "b"]


def test_groups_are_deleted_one_by_one_and_never_twice() -> None:
    full = group_admin.DeletableGroupResult(group_id="g", error_code=ErrorCode.NON_EMPTY_GROUP)
    broker = coordinating(FakeBroker())
    broker.on(group_admin.DeleteGroupsRequest, group_admin.DeleteGroupsResponse(results=[full]))
    outcome = asked(broker, lambda admin: admin.delete_groups(["g"]))["g"]
    assert "still has members" in str(outcome)
    broker = coordinating(FakeBroker()).on(group_admin.DeleteGroupsRequest, HANG_UP)
    with pytest.raises(ConnectionLostError):
        asked(broker, lambda admin: admin.delete_groups(["g"]))
    assert len(broker.asked_for(group_admin.DeleteGroupsRequest)) == 1


def answered_offsets(request: offsets.OffsetFetchRequest, header: RequestHeader) -> Any:
    """t-0 is at 5; t-1 has nothing committed."""
    new = [
        offsets.OffsetFetchResponsePartitions(partition_index=0, committed_offset=5, metadata="note"),
        offsets.OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
    ]
    old = [
        offsets.OffsetFetchResponsePartition(partition_index=0, committed_offset=5, metadata="note"),
        offsets.OffsetFetchResponsePartition(partition_index=1, committed_offset=-1),
    ]
    if header.api_version < 8:
        return offsets.OffsetFetchResponse(topics=[offsets.OffsetFetchResponseTopic("t", old)])
    topics = [offsets.OffsetFetchResponseTopics(name="t", partitions=new)]
    return offsets.OffsetFetchResponse(groups=[offsets.OffsetFetchResponseGroup("g", topics)])


@pytest.mark.parametrize("newest", [10, 7])
@pytest.mark.parametrize("wanted", [None, [T0, T1]])
def test_committed_offsets_are_listed_in_old_and_new_versions(
    newest: int, wanted: list[TopicPartition] | None
) -> None:
    broker = offering(coordinating(FakeBroker()), k9=newest)
    broker.on(offsets.OffsetFetchRequest, answered_offsets)
    found = asked(broker, lambda admin: admin.list_group_offsets("g", wanted))
    assert found == {T0: CommittedOffset(5, -1, "note")}
    ((header, request),) = [each for each in broker.asked if isinstance(each[1], offsets.OffsetFetchRequest)]
    assert header.api_version == min(newest, 9)
    topics = request.topics if newest == 7 else request.groups[0].topics
    assert topics is None if wanted is None else topics[0].partition_indexes == [0, 1]


def test_offsets_of_a_group_without_members_are_changed_one_by_one() -> None:
    answer = offsets.OffsetCommitResponse(
        topics=[
            offsets.OffsetCommitResponseTopic(
                name="t",
                partitions=[
                    offsets.OffsetCommitResponsePartition(0),
                    offsets.OffsetCommitResponsePartition(1, ErrorCode.UNKNOWN_MEMBER_ID),
                ],
            )
        ]
    )
    broker = coordinating(FakeBroker()).on(offsets.OffsetCommitRequest, answer)
    wanted = {T0: CommittedOffset(3, 2, "n"), T1: CommittedOffset(4)}
    outcomes = asked(broker, lambda admin: admin.alter_group_offsets("g", wanted))
    assert outcomes[T0] is None
    assert 'the group "g" has members, and only they can commit' in str(outcomes[T1])
    (request,) = broker.asked_for(offsets.OffsetCommitRequest)
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", -1, "")
    first = request.topics[0].partitions[0]
    assert (first.committed_offset, first.committed_leader_epoch, first.committed_metadata) == (3, 2, "n")


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND])
def test_offsets_are_forgotten(code: ErrorCode) -> None:
    results = [
        offsets.OffsetDeleteResponsePartition(0),
        offsets.OffsetDeleteResponsePartition(1, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
    ]
    answer = offsets.OffsetDeleteResponse(
        error_code=code, topics=[offsets.OffsetDeleteResponseTopic("t", results)] if not code else []
    )
    broker = coordinating(FakeBroker()).on(offsets.OffsetDeleteRequest, answer)
    outcomes = asked(broker, lambda admin: admin.delete_group_offsets("g", [T0, T1]))
    codes = [each.code if each else ErrorCode.NONE for each in outcomes.values()]
    assert codes == ([0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC] if not code else [code, code])


def test_members_are_removed_by_either_name_with_a_reason() -> None:
    answer = groups.LeaveGroupResponse(
        members=[
            groups.MemberResponse("", "i"),
            groups.MemberResponse("m", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ]
    )
    broker = coordinating(FakeBroker()).on(groups.LeaveGroupRequest, answer)
    outcomes = asked(
        broker, lambda admin: admin.remove_members("g", members=["m"], instances=["i"], reason="old")
    )
    assert outcomes["i"] is None
    assert isinstance(outcomes["m"], KafkaError)
    assert outcomes["m"].message == 'the group "g" has no member "m"'
    (request,) = broker.asked_for(groups.LeaveGroupRequest)
    assert [(each.member_id, each.group_instance_id, each.reason) for each in request.members] == [
        ("", "i", "removed by an administrator: old"),
        ("m", None, "removed by an administrator: old"),
    ]
    with pytest.raises(ValueError, match='"x" is named as a member and as an instance'):
        asked(broker, lambda admin: admin.remove_members("g", members=["x"], instances=["x"]))


def test_an_error_of_the_whole_group_is_everybodys() -> None:
    answer = groups.LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    broker = coordinating(FakeBroker()).on(groups.LeaveGroupRequest, answer)
    outcomes = asked(broker, lambda admin: admin.remove_members("g", members=["m", "n"]))
    codes = [each.code for each in outcomes.values() if isinstance(each, KafkaError)]
    assert codes == [ErrorCode.GROUP_AUTHORIZATION_FAILED] * 2


def test_nobody_is_removed_twice_and_not_by_a_broker_that_knows_no_instances() -> None:
    broker = coordinating(FakeBroker()).on(groups.LeaveGroupRequest, HANG_UP)
    with pytest.raises(ConnectionLostError):
        asked(broker, lambda admin: admin.remove_members("g", members=["m"]))
    assert len(broker.asked_for(groups.LeaveGroupRequest)) == 1
    old = offering(coordinating(FakeBroker()), k13=2)
    with pytest.raises(KafkaError, match="removing members needs v3"):
        asked(old, lambda admin: admin.remove_members("g", members=["m"]))


def test_a_look_at_single_records_passes_over_what_is_none() -> None:
    data = {
        5: build_batch([Record(5, 1_005, None, b"x")], base_offset=5, is_control=True, is_transactional=True),
        6: build_batch([Record(6, 1_006, None, b"a"), Record(7, 1_007, None, b"b")], base_offset=6),
    }

    def answer(request: fetch.FetchRequest, header: RequestHeader) -> Any:
        (wanted,) = request.topics[0].partitions
        assert (request.max_bytes, request.max_wait_ms, header.api_version) == (1, 0, 12)
        found = fetch.PartitionData(
            partition_index=wanted.partition, records=memoryview(bytes(data.get(wanted.fetch_offset, b"")))
        )
        if wanted.partition == 1:
            found.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic="t", partitions=[found])])

    broker = coordinating(FakeBroker()).on(fetch.FetchRequest, answer)
    outcomes = asked(broker, lambda admin: admin.peek({T0: 5, T1: 0}))
    record = outcomes[T0]
    assert record is not None
    assert not isinstance(record, KafkaError)
    assert (record.offset, record.timestamp_ms, record.value) == (6, 1_006, b"a")
    assert isinstance(outcomes[T1], KafkaError)
    assert asked(broker, lambda admin: admin.peek({T0: 8})) == {T0: None}
