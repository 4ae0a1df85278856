"""Our assignors beside Java's own, for groups drawn at random and taken through several rebalances
(GRP-2).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence

import pytest
from bench.apache.kafka import HOME, TEST_HEAP, fetch
from bench.apache.maven import CannotFetchError
from tests.compat.foreign_clients import compile_java
from tests.unit.client.assigned_groups import group_story, shown

from ottla.client.membership.plan.assignors import ASSIGNORS, GroupedMember
from ottla.model import TopicPartition

pytestmark = pytest.mark.compat
GROUPS = 60


class JavaAssignors:
    """A JVM that divides one group after the other."""

    def __init__(self) -> None:
        compile_java()
        command = ["java", *TEST_HEAP, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
        command += ["-cp", f"{fetch()}/*:{HOME}/driver", "Assignors"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def assign(
        self, name: str, members: Sequence[GroupedMember], counts: dict[str, int]
    ) -> dict[str, list[TopicPartition]]:
        wanted = {topic for member in members for topic in member.subscription.topics}
        group = {
            "assignor": name,
            "counts": {topic: count for topic, count in counts.items() if topic in wanted},
            "members": [_shown(member) for member in members],
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(group) + "\n")
        self._process.stdin.flush()
        divided = json.loads(self._process.stdout.readline())
        return {m: [TopicPartition(*each) for each in partitions] for m, partitions in divided.items()}

    def close(self) -> None:
        self._process.communicate(timeout=20)


def _shown(member: GroupedMember) -> dict[str, object]:
    subscription = member.subscription
    return {
        "id": member.member_id,
        "instance": member.group_instance_id,
        "topics": subscription.topics,
        "owned": subscription.owned,
        "generation": subscription.generation_id,
        "userData": None if subscription.user_data is None else subscription.user_data.hex(),
    }


@pytest.fixture(scope="module")
def java() -> Iterator[JavaAssignors]:
    try:
        started = JavaAssignors()
    except CannotFetchError as reason:
        pytest.skip(f"NO JAVA CLIENT TO COMPARE WITH: {reason}")
    yield started
    started.close()


@pytest.mark.parametrize("same_topics", [True, False])
@pytest.mark.parametrize("name", ASSIGNORS)
def test_java_divides_every_group_as_we_do(java: JavaAssignors, name: str, same_topics: bool) -> None:
    for seed in range(GROUPS):
        for now in group_story(seed, same_topics=same_topics):
            members = now.members(name)
            ours = ASSIGNORS[name].assign(members, now.counts)
            assert shown(ours) == shown(java.assign(name, members, now.counts)), f"seed {seed}"
            now.held = ours
