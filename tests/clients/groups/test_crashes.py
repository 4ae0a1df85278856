"""The broker is killed while groups are at work: they come back, and no acknowledged commit is undone (GRP-3,
STO-10).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.clients.groups.catalogue import GroupFamily, group_families
from tests.clients.groups.conftest import GroupTrial
from tests.clients.groups.host import Member, await_shared_out, until
from tests.clients.groups.model import Partition
from tests.clients.groups.python_admins import ConfluentGroupAdmin
from tests.clients.groups.test_scenarios import have_read
from tests.clients.model import RefusedError


def acknowledged(journal: Path) -> dict[int, int]:
    """The highest offset of each partition whose commit the member was told to be done."""
    highest: dict[int, int] = defaultdict(int)
    for line in journal.read_text().splitlines() if journal.exists() else ():
        word, partition, offset, *_ = line.split()
        if word == "committed":
            highest[int(partition)] = max(highest[int(partition)], int(offset))
    return highest


def committed_when_loaded(member: Member, places: Sequence[Partition]) -> dict[int, int]:
    """The committed offsets, as soon as there is a coordinator again; not every client waits for it by
    itself.
    """
    found: dict[int, int] = {}

    def is_loaded() -> bool:
        try:
            found.update({one.partition: one.offset for one in member.committed(*places)})
        except RefusedError:
            return False
        return True

    until(is_loaded, "the coordinator is loaded", [member])
    return found


@group_families()
def test_commits_that_were_acknowledged_survive_a_killed_broker(
    restarting_trial: GroupTrial, family: GroupFamily, tmp_path: Path
) -> None:
    trial = restarting_trial
    trial.make_topic(4)
    journal = tmp_path / "journal"
    member = trial.join(family, commits="each", max_poll_records=1, journal=str(journal))
    until(lambda: member.has(4), "it has all", [member])
    values = trial.write(200, 4)
    until(lambda: sum(acknowledged(journal).values()) > 20, "it commits", [member])
    trial.restart_broker(kill=True)
    told = acknowledged(journal)
    places = [(trial.topic, partition) for partition in range(4)]
    kept = committed_when_loaded(member, places)
    assert all(kept[partition] >= offset for partition, offset in told.items())
    until(lambda: have_read([member], values), "all is read", [member])
    until(lambda: sum(acknowledged(journal).values()) == 200, "all is committed", [member])


@group_families()
def test_a_group_whose_broker_is_killed_in_a_rebalance_comes_back(
    restarting_trial: GroupTrial, family: GroupFamily
) -> None:
    trial = restarting_trial
    trial.make_topic(4)
    host = trial.hosts.own(family)
    first = trial.join(family, host=host, commits="each")
    until(lambda: first.has(4), "the first has all", [first])
    values = trial.write(8, 4)
    until(lambda: have_read([first], values), "all is read", [first])
    host.freeze()  # so that it cannot join again, and the rebalance lasts
    second = trial.join(family, commits="each")
    admin = ConfluentGroupAdmin(trial.broker.bootstrap)
    until(lambda: admin.describe_group(trial.group).state == "PreparingRebalance", "they rebalance", [second])
    trial.restart_broker(kill=True)
    host.thaw()
    await_shared_out([first, second], 4)
    values += trial.write(8, 4)
    until(lambda: have_read([first, second], values), "all is read", [first, second])
