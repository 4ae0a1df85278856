"""Groups of several kinds of clients, rebalances that leave in peace what they do not move, and how many
there are (GRP-2, GRP-4).
"""

from __future__ import annotations

import time

import pytest
from tests.clients.groups.catalogue import (
    AIOKAFKA,
    CONFLUENT,
    FAMILIES,
    KAFKA_PYTHON,
    OTTLA,
    GroupFamily,
    Hosts,
    mixed,
)
from tests.clients.groups.conftest import GROUP_SETTINGS, GroupTrial
from tests.clients.groups.host import Member, await_shared_out, until
from tests.clients.groups.model import Assignor
from tests.clients.groups.offsets_topic import recorded_group
from tests.clients.groups.test_scenarios import have_read
from tests.conftest import start

from ottla.localcluster.broker_process import running

PYTHON_FAMILIES = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON, OTTLA)
ASSIGNORS: tuple[Assignor, ...] = ("range", "roundrobin", "sticky", "cooperative-sticky")


def mixtures() -> pytest.MarkDecorator:
    """Each assignor with those who have it, of PyPI's clients and of all. Of all, who all have range, each
    leads once.
    """
    cases = []
    for families in (PYTHON_FAMILIES, FAMILIES):
        for number, assignor in enumerate(ASSIGNORS):
            able = mixed(assignor, families)
            each_leads = families is FAMILIES and assignor == "range"
            for first in range(len(able)) if each_leads else [number % len(able)]:
                order = able[first:] + able[:first]
                marks = [pytest.mark.compat] if families is FAMILIES else []
                name = f"{assignor}-{'-'.join(family.name for family in order)}"
                cases.append(pytest.param(order, assignor, id=name, marks=marks))
    return pytest.mark.parametrize(("order", "assignor"), cases)


@mixtures()
def test_members_of_different_clients_share_one_group(
    trial: GroupTrial, order: list[GroupFamily], assignor: Assignor
) -> None:
    total = 2 * len(order)
    trial.make_topic(total)
    members = []
    for family in order:
        members.append(trial.join(family, assignors=(assignor,)))
        until(lambda: bool(members[0].look().member_id), "the first one leads", members)
    await_shared_out(members, total)
    recorded = recorded_group(trial.broker.bootstrap, trial.group)
    assert (recorded.protocol, recorded.leader) == (assignor, members[0].look().member_id)
    values = trial.write(2 * total, total)
    until(lambda: have_read(members, values), "all is read", members)


def companies() -> pytest.MarkDecorator:
    """Our consumer with one of another client, by each assignor that both have."""
    return pytest.mark.parametrize(
        ("other", "assignor"),
        [
            pytest.param(other, assignor, id=f"{other.name}-{assignor}", marks=other.marks)
            for other in FAMILIES
            if other is not OTTLA
            for assignor in other.assignors
        ],
    )


@companies()
def test_while_ours_and_others_come_and_go_every_record_is_read_exactly_once(
    trial: GroupTrial, other: GroupFamily, assignor: Assignor
) -> None:
    """Each step: somebody joins or leaves, the partitions are shared out, records come, are read and
    committed.

    A step takes one rebalance or two, rarely one more; in a storm there would be some hundred.
    """
    partitions, values = 4, list[str]()
    steps = (OTTLA, other, OTTLA, other, 0, 0, other, 0)
    trial.make_topic(partitions)
    places = [(trial.topic, partition) for partition in range(partitions)]
    members, gone = list[Member](), list[Member]()

    def is_settled() -> bool:
        done = [one.offset for one in members[0].committed(*places)]
        return have_read(members + gone, values) and done == [len(values) // partitions] * partitions

    for step in steps:
        if isinstance(step, GroupFamily):
            members.append(trial.join(step, assignors=(assignor,), commits="each"))
        else:
            gone.append(members.pop(step))
            gone[-1].leave()
        await_shared_out(members, partitions)
        values += trial.write(2 * partitions, partitions)
        until(is_settled, "all is read and committed", members)
    read = [value for member in members + gone for value in member.look().values]
    assert sorted(read) == sorted(values)
    assert recorded_group(trial.broker.bootstrap, trial.group).generation < 5 * len(steps)


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(family, id=family.name, marks=family.marks)
        for family in mixed("cooperative-sticky", FAMILIES)
    ],
)
def test_a_cooperative_rebalance_takes_away_only_what_moves(trial: GroupTrial, family: GroupFamily) -> None:
    trial.make_topic(6)
    first = trial.join(family, assignors=("cooperative-sticky",))
    until(lambda: first.has(6), "the first has all", [first])
    everything = first.assignment
    second = trial.join(family, assignors=("cooperative-sticky",))
    values = trial.write(60, 6)  # while they rebalance
    await_shared_out([first, second], 6)
    until(lambda: have_read([first, second], values), "all is read", [first, second])
    kept = first.assignment
    taken = [event.partitions for event in first.look().events if event.kind != "assigned"]
    assert frozenset().union(*taken) == everything - kept
    of_kept = [r.value for r in first.look().records if (r.topic, r.partition) in kept]
    assert len(of_kept) == len(set(of_kept)) == 30  # it went on reading where it was


def test_members_that_start_within_the_initial_delay_are_one_generation(
    target: str, hosts: Hosts, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No storms: a fleet that starts together rebalances once. It takes two delays of three seconds, the
    setting's default: the first member's, and once more because others came meanwhile.
    """
    settings = {**GROUP_SETTINGS, "group.initial.rebalance.delay.ms": "3000"}
    if target == "ottla":
        del settings["group.initial.rebalance.delay.ms"]  # it is the default
    data = tmp_path_factory.mktemp("delay") / "data"
    with running(start(target, data, settings)) as broker:
        trial = GroupTrial(broker, hosts, "fleet")
        trial.make_topic(4)
        members = [trial.join(CONFLUENT) for _ in range(4)]
        joined_at = time.monotonic()
        await_shared_out(members, 4)
        assert time.monotonic() - joined_at > 2
        assert recorded_group(broker.bootstrap, "fleet").generation == 1
        trial.close()
