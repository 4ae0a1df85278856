"""Members that are frozen, or too busy to poll: the others go on, and they come back as if new (GRP-3, GRP-4,
GRP-7).
"""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.clients.groups.catalogue import CONFLUENT, GroupFamily, group_families
from tests.clients.groups.conftest import GroupTrial
from tests.clients.groups.host import await_shared_out, rounds, until
from tests.clients.groups.model import Committed
from tests.clients.groups.offsets_topic import recorded_group
from tests.clients.groups.python_admins import ConfluentGroupAdmin
from tests.clients.groups.raw_requests import commit, join_frame

from ottla.localcluster.broker_process import BrokerProcess
from ottla.localcluster.waiting import wait_until


@group_families()
def test_a_member_frozen_past_its_session_is_replaced_its_commit_refused_and_it_comes_back(
    trial: GroupTrial, family: GroupFamily
) -> None:
    trial.make_topic(4)
    wishes: dict[str, Any] = {"session_timeout_ms": family.session_timeout_ms}
    host = trial.hosts.own(family)
    zombie, other = trial.join(family, host=host, **wishes), trial.join(family, **wishes)
    await_shared_out([zombie, other], 4)
    share = sorted(zombie.assignment)
    zombie.hold()
    trial.write(8, 4)
    host.freeze()
    until(lambda: other.has(4), "the other has all", [other])
    other.commit([Committed(*place, 2) for place in share])
    with ThreadPoolExecutor(1) as beside:
        # Asked for while it is frozen, so that the commit is the first thing it does: a client that joins
        # again by itself would soon be a member like any other.
        commit_of_a_zombie = beside.submit(zombie.commit, [Committed(*place, 1) for place in share])
        until(commit_of_a_zombie.running, "the commit is asked for", [other])
        host.thaw()
        is_refused = commit_of_a_zombie.exception() is not None
    assert is_refused or rounds(zombie) > 1  # it can only have been quick, and a member again
    assert not is_refused or [one.offset for one in other.committed(*share)] == [2] * len(share)
    zombie.go_on()
    await_shared_out([zombie, other], 4)


@group_families("max_poll_interval")
def test_a_member_whose_application_does_not_poll_leaves_and_joins_again_when_it_does(
    trial: GroupTrial, family: GroupFamily
) -> None:
    trial.make_topic(4)
    wishes: dict[str, Any] = {"session_timeout_ms": family.session_timeout_ms}
    slow = trial.join(family, max_poll_interval_ms=family.session_timeout_ms + 200, **wishes)
    other = trial.join(family, **wishes)
    await_shared_out([slow, other], 4)
    slow.hold()
    until(lambda: other.has(4), "the other has all", [other])
    slow.go_on()
    await_shared_out([slow, other], 4)


def test_the_coordinator_refuses_commits_of_other_generations_and_of_strangers(trial: GroupTrial) -> None:
    trial.make_topic(2)
    member = trial.join(CONFLUENT)
    until(lambda: member.has(2), "it has all", [member])
    bootstrap, group, topic = trial.broker.bootstrap, trial.group, trial.topic
    generation = recorded_group(bootstrap, group).generation
    member_id = member.look().member_id
    assert commit(bootstrap, group, generation - 1, member_id, topic, 1) == 22
    assert commit(bootstrap, group, generation + 1, member_id, topic, 1) == 22
    assert commit(bootstrap, group, generation, "somebody-else", topic, 1) == 25
    assert commit(bootstrap, group, -1, "", topic, 1) == 25
    assert member.committed((topic, 0))[0].offset == -1
    assert commit(bootstrap, group, generation, member_id, topic, 7) == 0
    assert member.committed((topic, 0))[0].offset == 7


def descriptors(broker: BrokerProcess) -> int:
    """How many files and connections a broker has open."""
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def test_members_that_die_while_they_join_hold_nobody_up_and_leave_nothing_behind(trial: GroupTrial) -> None:
    trial.make_topic(2)
    admin = ConfluentGroupAdmin(trial.broker.bootstrap)
    assert trial.group not in admin.list_groups()
    before = descriptors(trial.broker)
    host, port = trial.broker.bootstrap.rsplit(":", 1)
    for _ in range(30):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(join_frame(trial.group, trial.topic, session_timeout_ms=500))
    member = trial.join(CONFLUENT)
    until(lambda: member.has(2), "one that lives has all", [member])
    assert [one.member_id for one in admin.describe_group(trial.group).members] == [member.look().member_id]
    member.leave()
    wait_until(
        lambda: descriptors(trial.broker) <= before + 2, "all connections are closed"
    )  # the member's host keeps some
