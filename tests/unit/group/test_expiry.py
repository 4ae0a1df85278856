"""Forgetting offsets and groups (KIP-211): never those that are still needed."""

from __future__ import annotations

from tests.unit.group.shell import GROUP, Shell

from ottla.config import GroupConfig
from ottla.group.records import OffsetCommitValue, offset_record
from ottla.protocol.messages.groups import MemberIdentity

RETENTION_MINUTES = 2
RETENTION_MS = RETENTION_MINUTES * 60_000
CHECK_MS = 1_000


def new_shell() -> Shell:
    return Shell(
        GroupConfig(
            initial_rebalance_delay_ms=0,
            offsets_retention_minutes=RETENTION_MINUTES,
            offsets_retention_check_interval_ms=CHECK_MS,
        )
    )


def wait_alive(shell: Shell, member_id: str, duration_ms: int) -> None:
    for _ in range(duration_ms // 5_000):
        shell.heartbeat(member_id, shell.group.generation)
        shell.wait(5_000)


def test_an_offset_without_membership_is_kept_for_the_retention_time_after_its_commit() -> None:
    shell = new_shell()
    shell.commit(5)
    shell.wait(RETENTION_MS - 1)
    assert shell.committed() == 5
    shell.commit(6, partition=1)
    shell.wait(CHECK_MS + 1)
    assert (shell.committed(0), shell.committed(1)) == (-1, 6)
    shell.wait(RETENTION_MS)
    assert not shell.machine.groups


def test_an_empty_groups_offsets_are_kept_for_the_retention_time_after_the_last_member() -> None:
    shell = new_shell()
    (leader,) = shell.form(1)
    shell.commit(5, generation=1, member_id=leader)
    wait_alive(shell, leader, RETENTION_MS)
    shell.leave(MemberIdentity(leader))
    shell.wait(RETENTION_MS - CHECK_MS)
    assert shell.committed() == 5
    shell.wait(2 * CHECK_MS)
    assert shell.committed() == -1
    assert not shell.machine.groups
    assert shell.log[-1].value is None
    assert not shell.restarted().machine.groups


def test_an_offset_that_an_admin_sets_later_lives_as_long_as_any_other() -> None:
    shell = new_shell()
    (leader,) = shell.form(1)
    shell.commit(5, generation=1, member_id=leader)
    shell.leave(MemberIdentity(leader))
    shell.wait(RETENTION_MS - CHECK_MS)
    shell.commit(0)
    shell.wait(RETENTION_MS - CHECK_MS)
    assert shell.committed() == 0


def test_a_stable_groups_offsets_are_kept_while_somebody_subscribes_to_the_topic() -> None:
    shell = new_shell()
    (leader,) = shell.form(1, topics=("t",))
    for topic in ("t", "old"):
        shell.commit(5, generation=1, member_id=leader, topic=topic)
    wait_alive(shell, leader, RETENTION_MS + 5_000)
    assert (shell.committed(topic="t"), shell.committed(topic="old")) == (5, -1)
    assert shell.state() == "Stable"


def test_nothing_is_forgotten_while_a_group_rebalances_or_is_of_an_unknown_kind() -> None:
    shell = new_shell()
    ticket = shell.send_join(version=3, protocol_type="connect")
    member_id = shell.joined(ticket).member_id
    shell.sync(member_id, 1, {}, protocol_type="connect")
    shell.commit(5, generation=1, member_id=member_id)
    wait_alive(shell, member_id, RETENTION_MS + 5_000)
    assert shell.committed() == 5


def test_an_expiry_of_its_own_comes_before_the_retention_time() -> None:
    shell = new_shell()
    shell.commit(5, version=4, retention_time_ms=3_000)
    shell.commit(6, version=4, partition=1, retention_time_ms=3 * RETENTION_MS)
    shell.wait(2_999)
    assert shell.committed(0) == 5
    shell.wait(CHECK_MS)
    assert shell.committed(0) == -1
    shell.wait(2 * RETENTION_MS)
    assert shell.committed(1) == 6


def test_pending_offsets_are_not_forgotten() -> None:
    shell = new_shell()
    shell.commit(5)
    shell.machine.replay(*offset_record(GROUP, "t", 0, OffsetCommitValue(9)), producer_id=1)
    shell.wait(3 * RETENTION_MS)
    assert shell.committed() == 5


def test_an_id_that_was_just_given_out_keeps_its_group() -> None:
    shell = new_shell()
    shell.new_id()
    shell.wait(2 * CHECK_MS)
    assert GROUP in shell.machine.groups


def test_much_is_forgotten_in_small_turns() -> None:
    shell = new_shell()
    for number in range(1_200):
        shell.machine.replay(*offset_record(f"g{number}", "t", 0, OffsetCommitValue(1)))
        shell.machine.replay(*offset_record(f"g{number}", "t", 1, OffsetCommitValue(1)))
    shell.now_ms += CHECK_MS
    sizes = []
    while shell.machine.groups:
        for decision in shell.machine.tick(shell.now_ms):
            shell.carry_out(decision)
            sizes.append(len(decision.records))
        shell.now_ms += 1
    assert sizes == [1_000, 1_000, 400]
