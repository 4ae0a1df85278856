"""The end-to-end scenarios of docs/requirements.md that are about groups (CHK-3, CHK-5)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.clients.groups.catalogue import GroupFamily, group_families
from tests.clients.groups.conftest import GroupTrial
from tests.clients.groups.host import Member, await_shared_out, until
from tests.clients.groups.model import values_by_partition


def have_read(members: list[Member], values: list[str]) -> bool:
    """Whether every record was read by a member."""
    return {value for member in members for value in member.look().values} == set(values)


def nothing_is_skipped(member: Member) -> bool:
    """Whether a member read each partition in order and without a gap from where it began."""
    return all(
        [record.offset for record in records]
        == list(range(records[0].offset, records[0].offset + len(records)))
        for records in values_by_partition(member.look().records).values()
    )


@group_families()
def test_chk_3_two_share_four_partitions_one_leaves_and_offsets_survive_a_restart(
    restarting_trial: GroupTrial, family: GroupFamily
) -> None:
    trial = restarting_trial
    trial.make_topic(4)
    first, second = (trial.join(family, commits="each", session_timeout_ms=6000) for _ in range(2))
    await_shared_out([first, second], 4)
    values = trial.write(40, 4)
    until(lambda: have_read([first, second], values), "all is read", [first, second])
    left_at = time.monotonic()
    second.leave()
    until(lambda: first.has(4), "the one that stayed has all", [first])
    assert time.monotonic() - left_at < 6
    values += trial.write(40, 4)
    until(lambda: have_read([first, second], values), "the rest is read", [first])
    first.leave()
    read_before = [*first.look().values, *second.look().values]
    assert sorted(read_before) == sorted(values)  # whoever leaves in peace leaves nothing to be read twice

    trial.restart_broker()
    values_after = trial.write(40, 4)
    third = trial.join(family, commits="each")
    until(lambda: len(third.look().records) >= 40, "the rest is read", [third])
    assert sorted(third.look().values) == sorted(values_after)
    assert nothing_is_skipped(third)
    places = [(trial.topic, partition) for partition in range(4)]
    until(lambda: [one.offset for one in third.committed(*places)] == [30] * 4, "all is committed", [third])


@group_families()
def test_chk_5_of_two_consumers_one_is_killed_and_the_other_reads_the_rest(
    trial: GroupTrial, family: GroupFamily, tmp_path: Path
) -> None:
    trial.make_topic(4)
    journal = tmp_path / "victim"
    wishes: dict[str, Any] = {
        "commits": "each",
        "session_timeout_ms": family.session_timeout_ms,
        "max_poll_records": 3,
    }
    victim_host = trial.hosts.own(family)
    victim = trial.join(family, host=victim_host, journal=str(journal), **wishes)
    survivor = trial.join(family, **wishes)
    await_shared_out([victim, survivor], 4)
    values = trial.write(40, 4)
    until(lambda: journal.exists() and bool(journal.read_text()), "it has begun to read", [victim])
    victim_host.kill()
    values += trial.write(60, 4)
    read_by_victim = {line.split()[-1] for line in journal.read_text().splitlines() if line.startswith("got")}
    until(
        lambda: read_by_victim | set(survivor.look().values) == set(values),
        "all hundred are read",
        [survivor],
    )
    assert len(set(values)) == 100
    assert read_by_victim
    assert survivor.has(4)
