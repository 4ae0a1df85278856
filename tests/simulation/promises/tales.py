"""What happens in a tale, before its end is judged.

A tale plays on a `Stage` whose replicas are called a, b and c; a is the preferred leader. At its end some
nodes may be down.
"""

from __future__ import annotations

from tests.simulation.promises.stage import Stage


def everybody_is_killed(stage: Stage) -> None:
    """Processes die one after the other while records are written, and come back in another order."""
    a, b, c = stage.replicas
    stage.write()
    stage.kill(a)
    stage.await_isr(b, c)
    stage.write()
    stage.kill(b, c)
    stage.start(a, c)
    stage.await_leader(c)


def the_last_in_sync_is_killed(stage: Stage) -> None:
    """Only c acknowledged the last records: the others wait for it."""
    a, b, c = stage.replicas
    _leave_alone(stage)
    stage.kill(c)
    stage.start(a, b)
    stage.await_nobody()
    stage.start(c)
    stage.await_leader(c)


def one_loses_power_and_the_others_are_killed(stage: Stage) -> None:
    a, b, c = stage.replicas
    stage.write()
    stage.kill(b, c)
    stage.lose_power(a)


def one_loses_power(stage: Stage) -> None:
    """The others go on without it."""
    a, b, c = stage.replicas
    stage.write()
    stage.lose_power(a)
    stage.await_isr(b, c)
    stage.write()


def one_loses_its_disk(stage: Stage) -> None:
    """The others go on without it."""
    a, b, c = stage.replicas
    stage.write()
    stage.lose_disk(a)
    stage.await_isr(b, c)
    stage.write()


def one_loses_its_disk_and_the_others_are_killed(stage: Stage) -> None:
    a, b, c = stage.replicas
    stage.write()
    stage.kill(b, c)
    stage.lose_disk(a)


def the_last_leader_loses_power(stage: Stage) -> None:
    """Of two in sync one is killed, and then the other loses power: the killed one holds everything."""
    a, b, c = stage.replicas
    _leave_a_pair(stage)
    stage.kill(b)
    stage.await_isr(a)
    stage.lose_power(a)
    stage.start(a, c)
    stage.await_nobody()
    stage.start(b)
    stage.await_leader(b)


def the_last_leader_loses_power_and_flushes(stage: Stage) -> None:
    """The same, where acknowledged means flushed: the one that lost power leads again."""
    a, b, c = stage.replicas
    _leave_a_pair(stage)
    stage.kill(b)
    stage.await_isr(a)
    stage.lose_power(a)
    stage.start(c, a)
    stage.await_leader(a)


def the_last_in_sync_loses_power(stage: Stage) -> None:
    _leave_alone(stage)
    stage.lose_power(stage.replicas[2])


def a_disk_is_lost_and_all_are_killed(stage: Stage) -> None:
    """The last leader, whom the others had followed, comes back with an empty disk."""
    a, b, c = stage.replicas
    stage.write()
    stage.kill(a)
    stage.await_isr(b, c)
    stage.write()
    stage.kill(b)
    stage.lose_disk(c)
    stage.start(a, c)
    stage.await_nobody()
    stage.start(b)
    stage.await_leader(b)


def the_last_in_sync_loses_its_disk(stage: Stage) -> None:
    _leave_alone(stage)
    stage.lose_disk(stage.replicas[2])


def the_last_leader_is_damaged(stage: Stage) -> None:
    """Of two in sync one is killed, and then records of the other are damaged: the killed one has them."""
    a, b, c = stage.replicas
    _leave_a_pair(stage)
    stage.kill(b)
    stage.await_isr(a)
    stage.damage_last_record(a)
    stage.start(a, c)
    stage.await_nobody()
    stage.start(b)
    stage.await_leader(b)


def the_last_in_sync_is_damaged(stage: Stage) -> None:
    _leave_alone(stage)
    stage.damage_last_record(stage.replicas[2])


def everybody_loses_power(stage: Stage) -> None:
    stage.write()
    stage.lose_power(*stage.replicas)


def everybody_loses_power_after_flushing_was_turned_on(stage: Stage) -> None:
    """Records that were written before count as well, once the brokers have heard of the setting."""
    stage.flush_on_acks_all("false")
    stage.write()
    stage.flush_on_acks_all("true")
    a, b, c = stage.replicas
    stage.lose_power(a, b, c)
    # Not the former leader, which flushes first.
    stage.start(b, c)
    stage.await_leader(b, c)


def two_disks_are_lost_and_a_third_is_complete(stage: Stage) -> None:
    a, b, c = stage.replicas
    stage.write()
    stage.lose_disk(a, b)
    stage.await_leader(c)


def two_disks_are_lost_that_alone_were_complete(stage: Stage) -> None:
    a, b, _ = stage.replicas
    _leave_a_pair(stage)
    stage.lose_disk(a, b)


def _leave_a_pair(stage: Stage) -> None:
    """Records are acknowledged by a and b alone, and c is down."""
    a, b, c = stage.replicas
    stage.write()
    stage.kill(c)
    stage.await_isr(a, b)
    stage.write()


def _leave_alone(stage: Stage) -> None:
    """Records are acknowledged by c alone, with a quorum of voters that is gone then: a and b are down."""
    a, b, c = stage.replicas
    stage.write()
    stage.kill(a)
    stage.await_isr(b, c)
    stage.write()
    stage.kill(b)
    stage.await_isr(c)
    stage.write()
