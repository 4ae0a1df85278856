"""A fleet of consumers that obey the protocol, and a world that does not let them: crashes, bounces, jumps of
time.

Every consumer assigns by range when it leads. What it owns, and in which generation, is written down the
moment the coordinator says so, and must not contradict what others were told. Commits of all kinds are tried
all the time; what is accepted must be right by the log alone. All chance comes from one seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from tests.unit.group.shell import GROUP, SESSION_MS, Shell, replay_history

from ottla.config import GroupConfig
from ottla.errors import ErrorCode
from ottla.group.classic import ClassicGroup, GroupState
from ottla.group.consumer_protocol import subscribed_topics
from ottla.group.coordinator import GroupCoordinator
from ottla.group.records import GroupMetadataKey, GroupMetadataValue, GroupRecord, decode_record
from ottla.group.timers import NEVER
from ottla.protocol.messages.groups import JoinGroupResponse, MemberIdentity, SyncGroupResponse

TOPICS = ("t", "u")
PARTITIONS_PER_TOPIC = 4
INSTANCES = ("i1", "i2", "i3")
JOIN_VERSIONS = (3, 5, 8, 9)
HEARTBEAT_MS = SESSION_MS // 3
FLEET_SIZE = 6

SETTINGS = GroupConfig(
    initial_rebalance_delay_ms=500,
    max_size=FLEET_SIZE,
    offsets_retention_minutes=3,
    offsets_retention_check_interval_ms=20_000,
)


@dataclass(eq=False)
class Consumer:
    """One process that consumes. `identity` is what owns partitions: a static member outlives its member
    ids.
    """

    name: str
    instance: str | None
    version: int
    topics: tuple[str, ...]
    rebalance_timeout_ms: int
    joined_topics: tuple[str, ...] = ()  # what it said that it wants when it last joined
    member_id: str = ""
    generation: int = -1
    owned: frozenset[str] = frozenset()
    ticket: int | None = None  # of the join or sync that it waits for
    is_alive: bool = True
    told: list[tuple[str, int]] = field(default_factory=list)  # member ids and generations that it ever had

    @property
    def identity(self) -> str:
        return self.instance or self.member_id


class Waiting(NamedTuple):
    """Whose question it is, and for which generation it was asked."""

    consumer: Consumer
    identity: str
    generation: int


def ranges(members: dict[str, frozenset[str]]) -> dict[str, bytes]:
    """The assignment: for each topic, even parts of the partitions in the order of member ids."""
    shares: dict[str, list[str]] = {member_id: [] for member_id in members}
    for topic in TOPICS:
        wanting = sorted(member_id for member_id, topics in members.items() if topic in topics)
        for partition in range(PARTITIONS_PER_TOPIC):
            if wanting:
                shares[wanting[partition * len(wanting) // PARTITIONS_PER_TOPIC]].append(
                    f"{topic}-{partition}"
                )
    return {member_id: ",".join(names).encode() for member_id, names in shares.items()}


class Fleet:
    """The consumers, their coordinator, and what was promised to whom."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.shell = Shell(SETTINGS)
        self.consumers: list[Consumer] = []
        self.zombies: list[Consumer] = []  # killed or replaced; they may still send what they know
        self.owners: dict[
            tuple[int, int], dict[str, str]
        ] = {}  # (life of the group, generation) → partition → who
        self.life = 0
        self.waiting: dict[int, Waiting] = {}
        self.generation = 0  # the last one that a consumer heard of
        self.members: set[tuple[str, int]] = set()  # who was told that he is in which generation
        self.instances: dict[str, str] = {}  # by instance id: the member id that was told last
        self.gone: set[str] = set()  # member ids that left, or were replaced
        self.log_lags = False  # the group's last record could not be written
        self.shell.on_answer = self._on_answer
        self._names = iter(f"c{number}" for number in range(1_000_000))
        self._read = 0

    # What consumers do

    def join(self, consumer: Consumer) -> None:
        consumer.owned = frozenset()
        consumer.joined_topics = consumer.topics
        instance = consumer.instance if consumer.version >= 5 else None
        self.wait_for(
            consumer,
            self.shell.send_join(
                consumer.member_id,
                instance=instance,
                topics=consumer.topics,
                rebalance_timeout_ms=consumer.rebalance_timeout_ms,
                version=consumer.version,
                client=consumer.name,
            ),
        )

    def wait_for(self, consumer: Consumer, ticket: int) -> None:
        consumer.ticket = ticket
        self.waiting[ticket] = Waiting(consumer, consumer.identity, consumer.generation)
        if ticket in self.shell.answers:
            self._on_answer(ticket)

    def _on_answer(self, ticket: int) -> None:
        """Write down what was promised, the moment that it is; who hears of it when is another matter."""
        waiting, answer = self.waiting.pop(ticket, None), self.shell.answers[ticket]
        if waiting is None or getattr(answer, "error_code", True):
            return
        self.read_log()
        if isinstance(answer, SyncGroupResponse):
            self._promise_assignment(waiting, bytes(answer.assignment))
        else:
            self._promise_membership(waiting, answer.member_id, answer.generation_id)

    def _promise_assignment(self, waiting: Waiting, assignment: bytes) -> None:
        owners = self.owners.setdefault((self.life, waiting.generation), {})
        for partition in filter(None, assignment.decode().split(",")):
            owner = owners.setdefault(partition, waiting.identity)
            assert owner == waiting.identity, (
                f"{partition} of generation {waiting.generation} has two owners: {owner}, {waiting.identity}"
            )

    def _promise_membership(self, waiting: Waiting, member_id: str, generation: int) -> None:
        assert generation >= (self._recorded.generation if self._recorded else 0), "a generation came back"
        self.forget_memberships_after(generation)
        self.generation = generation
        self.members.add((member_id, generation))
        instance = waiting.consumer.instance
        if instance is not None:
            former = self.instances.get(instance, member_id)
            self.gone |= {former} - {member_id}
            self.instances[instance] = member_id

    def forget_memberships_after(self, generation: int) -> None:
        """Later generations were lost before a consumer had a part in them."""
        self.members = {(member_id, told) for member_id, told in self.members if told <= generation}

    def deliver(self, consumer: Consumer) -> None:
        """A consumer hears the answer that it waits for, if there is one."""
        answer = self.shell.answers.get(consumer.ticket or 0)
        if answer is None:
            return
        consumer.ticket = None
        if isinstance(answer, JoinGroupResponse):
            self._on_join(consumer, answer)
        elif isinstance(answer, SyncGroupResponse):
            self._on_sync(consumer, answer)
        else:
            self.join(consumer)  # the coordinator could not write, or has moved

    def _on_join(self, consumer: Consumer, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            consumer.member_id = answer.member_id
            self.join(consumer)
        elif answer.error_code:
            self._on_error(consumer, ErrorCode(answer.error_code))
        else:
            consumer.member_id, consumer.generation = answer.member_id, answer.generation_id
            consumer.told.append((answer.member_id, answer.generation_id))
            leads = answer.leader == answer.member_id and not answer.skip_assignment
            self._sync(consumer, self._assignments(answer) if leads else {})

    @staticmethod
    def _assignments(answer: JoinGroupResponse) -> dict[str, bytes]:
        members = {member.member_id: subscribed_topics(bytes(member.metadata)) for member in answer.members}
        return ranges({member_id: topics or frozenset() for member_id, topics in members.items()})

    def _sync(self, consumer: Consumer, assignments: dict[str, bytes]) -> None:
        instance = consumer.instance if consumer.version >= 5 else None
        ticket = self.shell.sync(
            consumer.member_id, consumer.generation, assignments, group_instance_id=instance
        )
        self.wait_for(consumer, ticket)

    def _on_sync(self, consumer: Consumer, answer: SyncGroupResponse) -> None:
        if answer.error_code:
            self._on_error(consumer, ErrorCode(answer.error_code))
        else:
            consumer.owned = frozenset(filter(None, bytes(answer.assignment).decode().split(",")))

    def _on_error(self, consumer: Consumer, error: ErrorCode) -> None:
        if error in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
            self.kill(consumer)
            return
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            consumer.member_id = "" if error == ErrorCode.UNKNOWN_MEMBER_ID else consumer.member_id
            consumer.generation = -1
        self.join(consumer)

    def heartbeat(self, consumer: Consumer) -> None:
        if consumer.ticket is None and consumer.generation >= 0:
            instance = consumer.instance if consumer.version >= 5 else None
            error = self.shell.heartbeat(consumer.member_id, consumer.generation, instance)
            if error:
                self._on_error(consumer, error)
            elif consumer.joined_topics != consumer.topics:
                self.join(consumer)

    # What happens to them

    def start(self) -> None:
        if len(self.consumers) >= FLEET_SIZE:
            return
        free = [name for name in INSTANCES if all(one.instance != name for one in self.consumers)]
        instance = self.random.choice(free) if free and self.random.random() < 0.5 else None
        version = self.random.choice(JOIN_VERSIONS[1:] if instance else JOIN_VERSIONS)
        topics = self.random.choice([("t",), ("u",), TOPICS])
        patience_ms = self.random.choice((SESSION_MS // 2, 6 * SESSION_MS))
        self.consumers.append(Consumer(next(self._names), instance, version, topics, patience_ms))
        self.join(self.consumers[-1])

    def kill(self, consumer: Consumer) -> None:
        """It does nothing more by itself; but what it once sent may still arrive."""
        consumer.is_alive = False
        self.zombies.append(consumer)
        if consumer in self.consumers:
            self.consumers.remove(consumer)

    def bounce(self, consumer: Consumer) -> None:
        """A process is restarted: under its instance id if it has one, or as a new member."""
        self.kill(consumer)
        again = Consumer(
            next(self._names),
            consumer.instance,
            consumer.version,
            consumer.topics,
            consumer.rebalance_timeout_ms,
        )
        self.consumers.append(again)
        self.join(again)

    def leave(self, consumer: Consumer) -> None:
        if consumer.member_id:
            by_instance = consumer.instance and self.random.random() < 0.5
            identity = MemberIdentity("" if by_instance else consumer.member_id, consumer.instance)
            (error,) = self.shell.leave(identity)
            if not error and not by_instance:
                self.gone.add(consumer.member_id)
            self.kill(consumer)

    def change_topics(self, consumer: Consumer) -> None:
        consumer.topics = self.random.choice([("t",), ("u",), TOPICS])
        if consumer.ticket is None and consumer.generation >= 0:
            self.join(consumer)

    def ask_again(self, consumer: Consumer) -> None:
        """It loses patience, or its connection, and asks again; the old answer is ignored."""
        self.join(consumer)

    def pass_time(self, duration_ms: int) -> None:
        self.shell.wait(duration_ms)

    def restart_coordinator(self) -> None:
        """The coordinator moves: what is not in the log is lost, and everybody is told to look for the new
        one.
        """
        for decision in self.shell.machine.unload():
            self.shell.carry_out(decision)
        assert not self.waiting, "somebody waits for a coordinator that is gone"
        replayed = self.shell.restarted()
        self.shell.machine = replayed.machine
        self.log_lags = False
        recorded = self.recorded()
        self.generation = 0 if recorded is None else recorded.generation
        self.forget_memberships_after(self.generation)
        self.gone -= {member.member_id for member in (recorded.members if recorded else ())}

    # What must stay true

    def commit(self, member_id: str, generation: int, instance: str | None = None) -> None:
        """Try to commit; if it is accepted, the log must say that it may be."""
        before = self.recorded()
        error = self.shell.commit(
            self.random.randrange(1_000),
            generation=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        self._check_accepted(error, before, member_id, generation)

    def commit_within(self, producer_id: int, member_id: str, generation: int) -> None:
        """Try to commit within a transaction, on behalf of a member or of nobody."""
        before = self.recorded()
        error = self.shell.commit_within(
            producer_id, self.random.randrange(1_000), generation_id=generation, member_id=member_id
        )
        if member_id:
            self._check_accepted(error, before, member_id, generation)
        else:
            assert not error, "a producer that names no member may always commit"

    def _check_accepted(
        self, error: ErrorCode, before: GroupMetadataValue | None, member_id: str, generation: int
    ) -> None:
        if error or self.log_lags:
            return
        if generation < 0:
            assert before is None or not before.members, "a commit of nobody, into a group with members"
            return
        assert generation == self.generation, f"a commit of generation {generation} in {self.generation}"
        assert (member_id, generation) in self.members, f"{member_id} was never in generation {generation}"
        assert member_id not in self.gone, f"a commit of {member_id}, who is gone"

    def recorded(self) -> GroupMetadataValue | None:
        """The group as the log has it."""
        self.read_log()
        return self._recorded

    _recorded: GroupMetadataValue | None = None

    def read_log(self) -> None:
        """Follow the log by a reader of its own. With a tombstone the group's generations begin again."""
        for record in self.shell.log[self._read :]:
            decoded = decode_record(*record)
            if decoded is not None and isinstance(decoded[0], GroupMetadataKey):
                self._recorded = decoded[1]
                self.log_lags = False
                if self._recorded is None:
                    self.life += 1
                    self.generation = 0
                    self.members.clear()
        self._read = len(self.shell.log)

    def check(self) -> None:
        """Nothing that is needed to go on is missing, and the log alone gives the same durable state."""
        group = self.shell.machine.groups.get(GROUP)
        if group is not None:
            check_timers(group)
            parked = {
                parked.ticket
                for member in group.members.values()
                for parked in (member.parked_join, member.parked_sync)
                if parked is not None
            }
            assert parked == set(self.waiting), "who waits is not who is known to wait"
            joined = [member for member in group.members.values() if member.parked_join is not None]
            assert group.joined_count == len(joined)
        else:
            assert not self.waiting

    def check_replay(self) -> None:
        fresh = GroupCoordinator(SETTINGS, str)
        replay_history(fresh, self.shell.history)
        assert durable(fresh) == durable(self.shell.machine)
        group = self.shell.machine.groups.get(GROUP)
        if group is None or group.recorded is None or self.log_lags:
            return
        if group.state in (GroupState.STABLE, GroupState.EMPTY):
            assert settled(group) == settled(fresh.groups[GROUP])


def group_of(record: GroupRecord) -> str | None:
    """The group that a record is about; None if it is about an offset."""
    decoded = decode_record(*record)
    return decoded[0].group if decoded is not None and isinstance(decoded[0], GroupMetadataKey) else None


def check_timers(group: ClassicGroup) -> None:
    """Every member that others may wait for has a deadline."""
    timers = [group.timer] if group.state.value.endswith("Rebalance") else []
    for member in group.members.values():
        is_parked = member.parked_join is not None or member.parked_sync is not None
        if not is_parked or (member.is_new and member.parked_join is not None):
            timers.append(member.session)
    for timer in (*timers, *group.pending.values()):
        assert timer.queued_ms <= timer.deadline_ms < NEVER, "a deadline was lost"


def durable(machine: GroupCoordinator) -> dict[str, Any]:
    """All that the log decides on. Groups of which it knows nothing are left out."""
    return {
        group_id: (
            group.recorded,
            sorted(group.offsets.items(), key=lambda item: item[:2]),
            sorted(group.offsets.partitions()),
        )
        for group_id, group in machine.groups.items()
        if group.recorded is not None or not group.offsets.is_empty
    }


def settled(group: ClassicGroup) -> tuple[Any, ...]:
    """A group that is not in motion, as others see it."""
    members = [
        (
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(group.protocol),
            member.assignment,
        )
        for member in group.members.values()
    ]
    facts = (group.state, group.generation, group.protocol_type, group.protocol, group.leader)
    return (*facts, group.subscribed_topics, members)
