"""Groups of members, written short, and drawn at random, for tests of the sticky assignors."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ottla.client.membership.plan.assignors import ASSIGNORS, GroupedMember
from ottla.client.requests.consumer_protocol import MemberSubscription
from ottla.model import TopicPartition


def partitions_of(text: str) -> tuple[TopicPartition, ...]:
    """`t-0,u-1`"""
    named = (part.rpartition("-") for part in text.split(",") if part)
    return tuple(TopicPartition(topic, int(index)) for topic, _, index in named)


def counts_of(text: str) -> dict[str, int]:
    """`t=4 u=1`"""
    return {topic: int(count) for topic, _, count in (part.partition("=") for part in text.split())}


def shown(assignment: Mapping[str, Iterable[TopicPartition]]) -> str:
    """`a:t-0,t-1 b:`"""
    return " ".join(f"{m}:{','.join(map(str, sorted(assignment[m])))}" for m in sorted(assignment))


def member(
    assignor: str, member_id: str, topics: Iterable[str], owned: Iterable[TopicPartition], generation_id: int
) -> GroupedMember:
    """A member as it would tell the leader what it had, for this assignor."""
    held = tuple(owned)
    user_data = ASSIGNORS[assignor].user_data(held, generation_id)
    claimed = held if ASSIGNORS[assignor].is_cooperative else ()
    return GroupedMember(member_id, MemberSubscription(tuple(topics), claimed, generation_id, user_data))


def members_of(assignor: str, text: str) -> list[GroupedMember]:
    """`a:t,u:t-0,t-1@3 b:t:@-1`"""
    members = []
    for part in text.split():
        member_id, topics, claim = part.split(":")
        owned, _, generation_id = claim.partition("@")
        members.append(
            member(assignor, member_id, topics.split(","), partitions_of(owned), int(generation_id))
        )
    return members


@dataclass
class Generation:
    """One rebalance of a group: who asks, and what there is to divide."""

    counts: dict[str, int]
    topics: dict[str, list[str]]
    held: dict[str, list[TopicPartition]]
    generations: dict[str, int]

    def members(self, assignor: str) -> list[GroupedMember]:
        return [
            member(assignor, m, wanted, self.held.get(m, ()), self.generations.get(m, -1))
            for m, wanted in self.topics.items()
        ]


def group_story(seed: int, *, same_topics: bool, rebalances: int = 5) -> Iterator[Generation]:
    """A group through several rebalances. Whoever goes through them puts each outcome into `held`."""
    rnd = random.Random(seed)
    topics = [f"topic{n}" for n in range(rnd.randint(1, 4))]
    now = Generation({topic: rnd.randint(1, 7) for topic in topics}, {}, {}, {})

    def join() -> None:
        some = topics if same_topics else rnd.sample(topics, rnd.randint(1, len(topics)))
        now.topics[f"consumer-{rnd.randrange(100)}-{rnd.randrange(1 << 32):08x}"] = some

    for _ in range(rnd.randint(1, 5)):
        join()
    for generation_id in range(1, rebalances + 1):
        yield now
        now.held = {m: now.held[m] for m in now.topics}
        now.generations = dict.fromkeys(now.topics, generation_id)
        match rnd.randrange(5):
            case 0 | 1:
                join()
            case 2 if len(now.topics) > 1:
                now.topics.pop(rnd.choice(sorted(now.topics)))
            case 3:
                now.counts[rnd.choice(topics)] += 2
            case _:  # one of them has missed the last rebalance
                now.generations[rnd.choice(sorted(now.topics))] -= 1
