"""Static members: a restart within the session is no rebalance; two members of one name are refused
(GRP-7).
"""

from __future__ import annotations

import time

from tests.clients.groups.catalogue import CONFLUENT, GroupFamily, group_families
from tests.clients.groups.conftest import GroupTrial
from tests.clients.groups.host import Member, await_shared_out, rounds, until
from tests.clients.groups.model import Committed, Partition
from tests.clients.groups.offsets_topic import recorded_group
from tests.clients.groups.test_scenarios import have_read
from tests.clients.model import RefusedError


@group_families("static")
def test_a_static_member_that_is_bounced_gets_its_share_back_and_nobody_rebalances(
    trial: GroupTrial, family: GroupFamily
) -> None:
    trial.make_topic(6)
    members = {name: trial.join(family, instance_id=name, commits="each") for name in ("a", "b")}
    await_shared_out(list(members.values()), 6)
    generation = recorded_group(trial.broker.bootstrap, trial.group).generation
    for name, other in (("a", "b"), ("b", "a")):  # one of them leads
        share, before = members[name].assignment, rounds(members[other])
        members[name].leave()
        values = trial.write(12, 6)
        members[name] = again = trial.join(family, instance_id=name, commits="each")
        until(lambda again=again, share=share: again.assignment == share, "it has its share", [again])  # type: ignore[misc]
        assert recorded_group(trial.broker.bootstrap, trial.group).generation == generation
        assert rounds(members[other]) == before
        everybody = list(members.values())
        until(
            lambda values=values, who=everybody: set(values) <= {v for m in who for v in m.look().values},  # type: ignore[misc]
            "all is read",
            everybody,
        )
    third = trial.join(family, instance_id="c", commits="each")
    await_shared_out([*members.values(), third], 6)


def is_fenced(member: Member, partition: Partition) -> bool:
    """Whether it was told so; kafka-python keeps it to itself until it is asked to commit."""
    if "FENCED_INSTANCE_ID" in member.look().errors:
        return True
    try:
        member.commit([Committed(*partition, 1)])
    except RefusedError as error:
        return error.code == "FENCED_INSTANCE_ID"
    return False


@group_families("static", "fenced")
def test_the_second_of_one_instance_id_takes_over_and_the_first_is_told_so(
    trial: GroupTrial, family: GroupFamily
) -> None:
    trial.make_topic(4)
    first, other = (trial.join(family, instance_id=name) for name in ("same", "other"))
    await_shared_out([first, other], 4)
    share = first.assignment
    second = trial.join(family, instance_id="same")
    until(lambda: second.assignment == share, "the second has its share", [first, second])
    until(lambda: is_fenced(first, min(share)), "the first is fenced", [first, second])
    values = trial.write(8, 4)
    until(lambda: have_read([second, other], values), "all is read", [second, other])


def test_a_static_member_that_stays_away_loses_its_share_when_its_session_ends(trial: GroupTrial) -> None:
    trial.make_topic(2)
    session_ms = CONFLUENT.session_timeout_ms
    gone, stays = (
        trial.join(CONFLUENT, instance_id=name, session_timeout_ms=session_ms) for name in ("gone", "stays")
    )
    await_shared_out([gone, stays], 2)
    gone.leave()
    left_at = time.monotonic()
    until(lambda: stays.has(2), "the other has all", [stays])
    assert time.monotonic() - left_at > session_ms / 1000 / 2
