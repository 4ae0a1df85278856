"""Groups from outside: listed, described, deleted, their offsets looked at and changed (GRP-3, GRP-7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.clients.groups.admin import AdminAbility, GroupAdmin, HostAdmin
from tests.clients.groups.catalogue import (
    AIOKAFKA,
    CONFLUENT,
    FRANZ_GO,
    JAVA,
    KAFKA_PYTHON,
    KAFKAJS,
    OTTLA,
    GroupFamily,
)
from tests.clients.groups.conftest import GroupTrial
from tests.clients.groups.host import await_shared_out, until
from tests.clients.groups.model import Committed
from tests.clients.groups.python_admins import (
    AiokafkaGroupAdmin,
    ConfluentGroupAdmin,
    KafkaPythonGroupAdmin,
    OttlaGroupAdmin,
)
from tests.clients.model import RefusedError

EVERYTHING: frozenset[AdminAbility] = frozenset(
    {"delete", "alter_offsets", "alter_refused", "delete_offsets", "remove_instance"}
)


@dataclass(frozen=True, slots=True)
class AdminFamily:
    """A client's admin interface, and what of it is there."""

    family: GroupFamily
    connect: Callable[[GroupTrial], GroupAdmin]
    abilities: frozenset[AdminAbility]


def through_program(family: GroupFamily) -> Callable[[GroupTrial], GroupAdmin]:
    return lambda trial: HostAdmin(trial.hosts.shared(family), trial.broker.bootstrap)


ADMINS = (
    AdminFamily(
        CONFLUENT,
        lambda trial: ConfluentGroupAdmin(trial.broker.bootstrap),
        EVERYTHING - {"delete_offsets", "remove_instance"},
    ),
    AdminFamily(AIOKAFKA, lambda trial: AiokafkaGroupAdmin(trial.broker.bootstrap), frozenset()),
    AdminFamily(KAFKA_PYTHON, lambda trial: KafkaPythonGroupAdmin(trial.broker.bootstrap), EVERYTHING),
    AdminFamily(OTTLA, lambda trial: OttlaGroupAdmin(trial.broker.bootstrap), EVERYTHING),
    AdminFamily(KAFKAJS, through_program(KAFKAJS), frozenset({"delete", "alter_offsets"})),
    AdminFamily(JAVA, through_program(JAVA), EVERYTHING),
    AdminFamily(FRANZ_GO, through_program(FRANZ_GO), EVERYTHING),
)


def admins(*needed: AdminAbility) -> pytest.MarkDecorator:
    able = [admin for admin in ADMINS if admin.abilities.issuperset(needed)]
    return pytest.mark.parametrize(
        "admin_family", [pytest.param(one, id=one.family.name, marks=one.family.marks) for one in able]
    )


@pytest.fixture
def admin(admin_family: AdminFamily, trial: GroupTrial) -> GroupAdmin:
    return admin_family.connect(trial)


@admins()
def test_a_group_is_listed_and_described_with_its_members(admin: GroupAdmin, trial: GroupTrial) -> None:
    trial.make_topic(4)
    members = [trial.join(CONFLUENT, instance_id="one"), trial.join(CONFLUENT)]
    await_shared_out(members, 4)
    described = admin.describe_group(trial.group)
    assert (described.state, described.protocol) == ("Stable", "range")
    by_id = {member.member_id: member for member in described.members}
    assert {member.look().member_id: member.assignment for member in members} == {
        member_id: member.assignment for member_id, member in by_id.items()
    }
    assert {member.client_id for member in by_id.values()} == {"rdkafka"}
    assert {member.host.strip("/") for member in by_id.values()} == {"127.0.0.1"}
    assert by_id[members[0].look().member_id].instance_id in ("one", None)
    assert admin.list_groups()[trial.group] in ("Stable", None)


def state_or_refusal(admin: GroupAdmin, group: str) -> str:
    """The description of a group; from DescribeGroups 6 on a missing group is refused."""
    try:
        return admin.describe_group(group).state
    except RefusedError as refused:
        return refused.code


@admins()
def test_a_group_without_members_is_empty_and_one_that_is_not_there_is_dead(
    admin: GroupAdmin, trial: GroupTrial
) -> None:
    trial.make_topic(1)
    member = trial.join(CONFLUENT)
    until(lambda: member.has(1), "it has the partition", [member])
    member.leave()
    assert admin.describe_group(trial.group).state == "Empty"
    assert admin.list_groups()[trial.group] in ("Empty", None)
    assert state_or_refusal(admin, f"no-{trial.group}") in ("Dead", "GROUP_ID_NOT_FOUND")
    assert f"no-{trial.group}" not in admin.list_groups()
    assert admin.offsets(f"no-{trial.group}") == []


@admins("delete")
def test_a_group_is_deleted_with_its_offsets_once_nobody_is_in_it(
    admin: GroupAdmin, trial: GroupTrial
) -> None:
    trial.make_topic(2)
    member = trial.join(CONFLUENT)
    until(lambda: member.has(2), "it has both partitions", [member])
    member.commit([Committed(trial.topic, 0, 5), Committed(trial.topic, 1, 6, "why")])
    assert {(one.partition, one.offset) for one in admin.offsets(trial.group)} == {(0, 5), (1, 6)}
    with pytest.raises(RefusedError) as refused:
        admin.delete_group(trial.group)
    assert refused.value.code == "NON_EMPTY_GROUP"
    member.leave()
    admin.delete_group(trial.group)
    assert trial.group not in admin.list_groups()
    assert admin.offsets(trial.group) == []
    with pytest.raises(RefusedError) as refused:
        admin.delete_group(trial.group)
    assert refused.value.code == "GROUP_ID_NOT_FOUND"


@admins("alter_offsets")
def test_members_begin_where_an_admin_has_put_them(admin: GroupAdmin, trial: GroupTrial) -> None:
    trial.make_topic(1)
    values = trial.write(10, 1)
    admin.alter_offsets(trial.group, [Committed(trial.topic, 0, 7)])
    member = trial.join(CONFLUENT)
    until(lambda: member.look().values == values[7:], "it reads from there on", [member])


@admins("alter_offsets", "alter_refused")
def test_offsets_of_a_group_with_members_are_not_altered_from_outside(
    admin: GroupAdmin, trial: GroupTrial
) -> None:
    trial.make_topic(1)
    member = trial.join(CONFLUENT)
    until(lambda: member.has(1), "it has the partition", [member])
    with pytest.raises(RefusedError) as refused:
        admin.alter_offsets(trial.group, [Committed(trial.topic, 0, 7)])
    assert refused.value.code == "UNKNOWN_MEMBER_ID"


@admins("delete_offsets")
def test_offsets_are_deleted_unless_somebody_reads_their_topic(admin: GroupAdmin, trial: GroupTrial) -> None:
    old, new = trial.make_topic(2, f"{trial.topic}-old"), trial.make_topic(1, f"{trial.topic}-new")
    admin.alter_offsets(trial.group, [Committed(old, 0, 1), Committed(old, 1, 2), Committed(new, 0, 3)])
    member = trial.join(CONFLUENT, topics=(new,))
    until(lambda: member.has(1), "it has the partition", [member])
    with pytest.raises(RefusedError) as refused:
        admin.delete_offsets(trial.group, [(new, 0)])
    assert refused.value.code == "GROUP_SUBSCRIBED_TO_TOPIC"
    admin.delete_offsets(trial.group, [(old, 0)])
    assert {(one.topic, one.partition, one.offset) for one in admin.offsets(trial.group)} == {
        (old, 1, 2),
        (new, 0, 3),
    }


@admins("remove_instance")
def test_a_static_member_is_removed_by_its_instance_id(admin: GroupAdmin, trial: GroupTrial) -> None:
    trial.make_topic(4)
    gone, stays = (trial.join(CONFLUENT, instance_id=name) for name in ("gone", "stays"))
    await_shared_out([gone, stays], 4)
    gone.leave()
    admin.remove_instance(trial.group, "gone")
    until(lambda: stays.has(4), "the other has all", [stays], 5)
