"""The broker is killed while groups are at work: they come back, and no acknowledged commit is undone (GRP-3, STO-10)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.clients.groups.catalogue import GroupFamily, group_families
from tests.clients.groups.conftest import GroupTrial
from tests.clients.groups.host import await_shared_out, until
from tests.clients.groups.test_scenarios import have_read


def acknowledged(journal: Path) -> dict[int, int]:
    """The highest offset of each partition whose commit the member was told to be done."""
    highest: dict[int, int] = defaultdict(int)
    for line in journal.read_text().splitlines() if journal.exists() else ():
        word, partition, offset, *_ = line.split()
        if word == "committed":
            highest[int(partition)] = max(highest[int(partition)], int(offset))
    return highest


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
    observer = trial.join(family, group=trial.group, topics=(trial.topic,))
    kept = {one.partition: one.offset for one in observer.committed(*places)}
    assert all(kept[partition] >= offset for partition, offset in told.items())
    observer.leave()
    until(lambda: have_read([member], values), "all is read", [member])
    until(lambda: sum(acknowledged(journal).values()) == 200, "all is committed", [member])


@group_families()
def test_a_group_whose_broker_is_killed_in_a_rebalance_comes_back(
    restarting_trial: GroupTrial, family: GroupFamily
) -> None:
    trial = restarting_trial
    trial.make_topic(4)
    first = trial.join(family, commits="each")
    until(lambda: first.has(4), "the first has all", [first])
    values = trial.write(8, 4)
    until(lambda: have_read([first], values), "all is read", [first])
    first.hold()  # so that it cannot join again, and the rebalance lasts
    trial.write(4, 4)
    second = trial.join(family, commits="each")
    until(
        lambda: "prepares to rebalance from generation 1" in trial.broker.said(), "they rebalance", [second]
    )
    trial.restart_broker(kill=True)
    first.go_on()
    await_shared_out([first, second], 4)
    values += trial.write(8, 4)
    until(
        lambda: set(values) <= {v for m in (first, second) for v in m.look().values}, "all is read", [first]
    )
