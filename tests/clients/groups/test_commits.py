"""Committed offsets through each client's own interface: by hand, by the clock, with words, without
membership (GRP-3, GRP-6).
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from typing import Any

import pytest
from tests.clients.groups.catalogue import CONFLUENT, GroupFamily, group_families
from tests.clients.groups.conftest import GroupTrial
from tests.clients.groups.host import Member, until
from tests.clients.groups.model import Committed
from tests.clients.groups.offsets_topic import OFFSET_KEY_TYPE, partition_of, records
from tests.clients.groups.python_admins import ConfluentGroupAdmin
from tests.clients.model import RefusedError
from tests.clients.raw import string


def member_of_two(trial: GroupTrial, family: GroupFamily, **wishes: Any) -> Member:
    """A member that has both partitions of the topic."""
    trial.make_topic(2)
    member = trial.join(family, **wishes)
    until(lambda: member.has(2), "it has both partitions", [member])
    return member


def recorded_offset(trial: GroupTrial, partition: int) -> bytes:
    """The last record of a committed offset, as Kafka's tools would read it."""
    place = string(trial.topic) + struct.pack(">i", partition)
    key = struct.pack(">h", OFFSET_KEY_TYPE) + string(trial.group) + place
    found = records(trial.broker.bootstrap, partition_of(trial.group))
    return [value for found_key, value in found if found_key == key][-1]


def topic_id(trial: GroupTrial) -> bytes:
    kept = (trial.broker.data / f"{trial.topic}-0" / "partition.metadata").read_text()
    return urlsafe_b64decode(kept.rpartition("topic_id:")[2].strip() + "==")


@group_families()
def test_what_is_committed_by_partition_is_what_is_fetched(trial: GroupTrial, family: GroupFamily) -> None:
    member = member_of_two(trial, family)
    places = [(trial.topic, 0), (trial.topic, 1)]
    assert [one.offset for one in member.committed(*places)] == [-1, -1]
    member.commit([Committed(trial.topic, 0, 3, "wherefore")])
    first, second = member.committed(*places)
    assert (first.offset, second.offset) == (3, -1)
    if "committed_metadata" in family.abilities:
        assert (first.metadata, second.metadata) == ("wherefore", "")
    member.commit([Committed(trial.topic, 0, 2), Committed(trial.topic, 1, 8)])
    assert [one.offset for one in member.committed(*places)] == [2, 8]
    with pytest.raises(RefusedError) as refused:
        member.commit([Committed(trial.topic, 0, 9, "x" * 4097)])
    assert refused.value.code == "OFFSET_METADATA_TOO_LARGE"
    assert member.committed((trial.topic, 0))[0].offset == 2
    value = recorded_offset(trial, 0)
    assert value.startswith(struct.pack(">hq", 4, 2))  # version 4, the offset
    assert value.endswith(b"\x01\x00\x10" + topic_id(trial))  # one tagged field, number 0, of 16 bytes


@group_families()
def test_the_position_is_committed_and_the_next_one_goes_on_there(
    trial: GroupTrial, family: GroupFamily
) -> None:
    member = member_of_two(trial, family)
    places = [(trial.topic, 0), (trial.topic, 1)]
    for is_async in (False, True) if "async_commit" in family.abilities else (False,):
        trial.write(10, 2)
        end = trial.written // 2
        until(lambda end=end: len(member.look().records) == 2 * end, "all is read", [member])  # type: ignore[misc]
        member.commit(is_async=is_async)
        until(
            lambda end=end: [one.offset for one in member.committed(*places)] == [end, end],  # type: ignore[misc]
            "it is committed",
            [member],
        )
    member.leave()
    after = trial.write(4, 2)
    heir = trial.join(family)
    until(lambda: sorted(heir.look().values) == sorted(after), "only the rest is read", [heir])


@group_families()
def test_with_auto_commit_the_position_is_committed_while_reading_and_at_the_end(
    trial: GroupTrial, family: GroupFamily
) -> None:
    member = member_of_two(trial, family, commits="auto")
    trial.write(10, 2)
    places = [(trial.topic, 0), (trial.topic, 1)]
    until(lambda: [one.offset for one in member.committed(*places)] == [5, 5], "it is committed", [member])
    more = trial.write(10, 2)
    until(lambda: len(member.look().records) == 20, "all is read", [member])
    member.leave()
    heir = trial.join(family, commits="auto")
    until(lambda: heir.has(2), "the next one has both", [heir])
    last = trial.write(2, 2)
    until(lambda: set(last) <= set(heir.look().values), "it reads on", [heir])
    assert not set(more) & set(heir.look().values)


@group_families("simple_commit")
def test_offsets_are_kept_for_a_group_without_members_and_refused_when_it_has_some(
    trial: GroupTrial, family: GroupFamily
) -> None:
    trial.make_topic(1)
    values = trial.write(10, 1)
    place = (trial.topic, 0)
    loner = trial.join(family, partitions=(place,))
    until(lambda: loner.look().values == values, "it reads what it assigned itself", [loner])
    assert loner.committed(place)[0].offset == -1
    loner.commit([Committed(*place, 6)])
    assert loner.committed(place)[0].offset == 6
    member = trial.join(family)
    until(lambda: member.look().values == values[6:], "a member goes on from there", [member])
    with pytest.raises((RefusedError, AssertionError)):
        loner.commit([Committed(*place, 1)])
    assert member.committed(place)[0].offset == 6


@group_families("pause")
def test_what_is_paused_is_not_read_and_what_is_sought_is_read_again(
    trial: GroupTrial, family: GroupFamily
) -> None:
    member = member_of_two(trial, family)
    first = trial.write(4, 2)
    until(lambda: sorted(member.look().values) == sorted(first), "all is read", [member])
    member.pause((trial.topic, 0))
    second = trial.write(4, 2)
    until(lambda: set(second[1::2]) <= set(member.look().values), "the other partition is read", [member])
    assert not set(second[0::2]) & set(member.look().values)
    member.resume((trial.topic, 0))
    until(lambda: set(second) <= set(member.look().values), "the paused partition is read", [member])
    member.seek((trial.topic, 1), 1)
    again = [first[3], *second[1::2]]
    until(lambda: member.look().values[-3:] == again, "three are read again", [member])


def test_offsets_in_a_deleted_topic_are_forgotten(trial: GroupTrial) -> None:
    member = member_of_two(trial, CONFLUENT)
    member.commit([Committed(trial.topic, 0, 3)])
    member.leave()
    trial.writer.delete_topic(trial.topic)
    admin = ConfluentGroupAdmin(trial.broker.bootstrap)
    until(lambda: admin.offsets(trial.group) == [], "they are gone", [])
    trial.make_topic(2)
    assert trial.join(CONFLUENT).committed((trial.topic, 0))[0].offset == -1
