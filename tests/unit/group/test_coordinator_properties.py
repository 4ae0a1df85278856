"""A fleet of consumers and their coordinator under random faults, from one seed (CHK-5).

Never two owners of a partition in one generation; never a commit of an old generation, or without a member,
accepted; every waiting request is answered exactly once; no deadline is lost; the log alone gives the same
durable state; and when things calm down, every consumer has its part and every partition one owner.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from tests.unit.group.fleet import PARTITIONS_PER_TOPIC, Fleet
from tests.unit.group.shell import GROUP
from tests.unit.group.storm import Storm

STEPS = 300
SEEDS = int(os.environ.get("OTTLA_STORMS", "60"))  # more of them for a night


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_group_survives_a_storm(seed: int) -> None:
    storm = Storm(seed)
    storm.run(STEPS)
    storm.calm()
    check_peace(storm.fleet, seed)
    for consumer in storm.fleet.consumers[-1:]:
        storm.fleet.change_topics(consumer)
    storm.calm()
    check_peace(storm.fleet, seed)


def check_peace(fleet: Fleet, seed: int) -> None:
    """Every consumer is in the group, and every subscribed partition has one owner."""
    if not fleet.consumers:
        group = fleet.shell.machine.groups.get(GROUP)
        assert group is None or group.state.value == "Empty", seed
        return
    assert fleet.shell.state() == "Stable", seed
    assert {consumer.member_id for consumer in fleet.consumers} == set(fleet.shell.group.members), seed
    assert {consumer.generation for consumer in fleet.consumers} == {fleet.shell.group.generation}, seed
    wanted = {topic for consumer in fleet.consumers for topic in consumer.topics}
    partitions = [f"{topic}-{index}" for topic in wanted for index in range(PARTITIONS_PER_TOPIC)]
    owned = Counter(partition for consumer in fleet.consumers for partition in consumer.owned)
    assert owned == Counter(partitions), seed
    for consumer in fleet.consumers:
        assert {partition.partition("-")[0] for partition in consumer.owned} <= set(consumer.topics), seed


def test_a_storm_reaches_every_corner() -> None:
    """A test of the test: the seeds above do cause what they are meant to cause."""
    answers, ended, notes, records = Counter[int](), Counter[bool](), "", 0
    for seed in range(10):
        storm = Storm(seed)
        storm.run(STEPS)
        shell = storm.fleet.shell
        notes += "\n".join(shell.notes)
        answers.update(getattr(answer, "error_code", -1) for answer in shell.answers.values())
        ended.update(entry for entry, _ in shell.history if isinstance(entry, bool))
        records += len(shell.log)
    assert {0, 16, 22, 25, 27, 79, 81, 82} <= set(answers)
    assert "no SyncGroup came from" in notes
    assert "is forgotten" in notes
    assert "is empty" in notes
    assert notes.count("forms generation") > 100
    assert records > 100
    assert min(ended[True], ended[False]) > 20
