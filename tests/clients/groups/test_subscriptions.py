"""What a group reads can change while it reads: more partitions, more topics, different wishes (GRP-2,
GRP-4).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.clients.groups.catalogue import GroupFamily, group_families
from tests.clients.groups.conftest import GroupTrial
from tests.clients.groups.host import Member, await_shared_out, until
from tests.clients.groups.test_scenarios import have_read

OTTLA = str(Path(sys.executable).with_name("ottla"))
OFTEN_MS = 300  # between two looks at the metadata


@group_families()
def test_new_partitions_are_noticed_and_shared(trial: GroupTrial, family: GroupFamily) -> None:
    trial.make_topic(2)
    members = [trial.join(family, metadata_max_age_ms=OFTEN_MS) for _ in range(2)]
    await_shared_out(members, 2)
    alter = [
        OTTLA,
        "topics",
        "alter",
        trial.topic,
        "--partitions",
        "4",
        "--bootstrap",
        trial.broker.bootstrap,
    ]
    subprocess.run(alter, check=True, capture_output=True)
    await_shared_out(members, 4)
    values = trial.write(8, 4)
    until(lambda: have_read(members, values), "all is read", members)


@group_families("pattern")
def test_a_pattern_finds_the_topics_that_match_now_and_those_that_come(
    trial: GroupTrial, family: GroupFamily
) -> None:
    trial.make_topic(1, f"{trial.topic}-early")
    trial.make_topic(1, f"other-{trial.topic}")
    member = trial.join(family, pattern=f"^{trial.topic}-.*", metadata_max_age_ms=OFTEN_MS)
    until(lambda: member.assignment == {(f"{trial.topic}-early", 0)}, "it has the early topic", [member])
    trial.make_topic(2, f"{trial.topic}-late")
    until(lambda: member.has(3), "it has the late topic, too", [member])


def has_looked(member: Member) -> bool:
    """Whether it is in the group with nothing to read; some clients say that there is no such topic, and
    wait.
    """
    view = member.look()
    return bool(view.member_id) or "UNKNOWN_TOPIC_OR_PARTITION" in view.errors


@group_families("later_topic")
def test_a_topic_that_is_created_after_the_subscription_is_read(
    trial: GroupTrial, family: GroupFamily
) -> None:
    member = trial.join(family, metadata_max_age_ms=OFTEN_MS)
    until(lambda: has_looked(member), "it has looked for the topic", [member])
    trial.make_topic(2)
    values = trial.write(4, 2)
    until(lambda: have_read([member], values), "all is read", [member])


@group_families("different_topics")
def test_members_may_subscribe_to_different_topics(trial: GroupTrial, family: GroupFamily) -> None:
    both, only = trial.make_topic(2), trial.make_topic(2, f"{trial.topic}-only")
    one = trial.join(family, topics=(both,))
    two = trial.join(family, topics=(both, only))
    until(
        lambda: (
            len(one.assignment | two.assignment) == len(one.assignment) + len(two.assignment) == 4
            and {topic for topic, _ in one.assignment} == {both}
        ),
        "everything has one owner who wants it",
        [one, two],
    )
