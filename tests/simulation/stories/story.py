"""One story: a seed decides how many nodes there are, what clients do, and which faults happen when."""

from __future__ import annotations

import asyncio
import gc
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from tests.simulation.stories.audit import Audit, leftovers, log_bytes, names_of
from tests.simulation.stories.clients import Administrator, Client
from tests.simulation.stories.copies import Copies
from tests.simulation.stories.faults import Faults
from tests.simulation.stories.ledger import Ledger, Promise
from tests.simulation.stories.pipelines import Pipeline
from tests.simulation.stories.readers import Member, Reader
from tests.simulation.stories.rot import Rot
from tests.simulation.stories.security import SECURITY_FAULTS, StorySecurity
from tests.simulation.stories.sequences import SEQUENCED_EVERY, SequencedWriter
from tests.simulation.stories.settings import COMPACTED, FLEETING, bootstrap, node_settings
from tests.simulation.stories.transactions.cast import Cast
from tests.simulation.stories.voter_changes import LOST_DISKS, VoterChanges
from tests.simulation.stories.watcher import Watcher
from tests.simulation.stories.writers import LastWriter, Writer
from tests.simulation.world.node import Node
from tests.simulation.world.scheduler import World

import ottla
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.server.answers import send_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.simulation.stories.ledger import Partition

GROUP: Final = "g"
_START_S: Final = 30.0
# How long faults happen, in simulated seconds.
FAULTS_S: Final = 6.0
_HEALING_S: Final = 90.0
# In so many stories writes go on across a cut, and how long a record may take then: the session of the node, or the
# lag of the follower, has to end first.
_CUT_SHARE: Final = 0.2
_CUT_S: Final = 8.0


@dataclass(slots=True)
class Outcome:
    """What came of a story. `broken` is empty if all promises were kept."""

    seed: int
    broken: list[str]
    trace: int
    simulated_s: float
    counts: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


class Story:
    """One run of a cluster. `faults` limits what may happen to the names given."""

    def __init__(
        self,
        seed: int,
        *,
        faults: Sequence[str] = (),
        faults_s: float = FAULTS_S,
        listen: Callable[[str], None] | None = None,
    ) -> None:
        self.seed = seed
        self.world = World(seed)
        self.security = StorySecurity(seed)
        self.world.access = self.security.options_of
        # A topic that is compacted, and how many keys its records have.
        self.rot = Rot(self)
        self.compacted = {"c0": 6} if self.world.dice.random() < 0.4 else {}
        self.ledger = Ledger(self.compacted)
        self.copies = self.ledger.copies = Copies(self)
        self.lines: list[str] = []
        self._listen = listen
        dice = self.world.dice
        count = 3 if dice.random() < 0.8 else 5
        self._voters = dice.choice((3, count))
        self.flushes = dice.random() < 0.5
        self._snapshot_bytes = dice.choice((1_500, 6_000))
        self._commits_automatically = dice.random() < 0.25
        self.nodes: list[Node] = []
        for _ in range(count):
            self.add_node()
        self.servers = bootstrap(count)
        self.partition_counts = {f"t{number}": dice.randrange(1, 4) for number in range(dice.randrange(1, 3))}
        self.transactions = Cast(self)
        self.clients: list[Client] = []
        self._committed: dict[Partition, int] = {}
        self._promised: dict[tuple[str, Partition], int] = {}
        self.voter_changes = VoterChanges(self, self._voters)
        self._faults = Faults(self)
        self.wanted_faults = faults
        self._faults_s = faults_s
        self._watcher = Watcher(self)
        self._fate = self.world.start("fate", "fate")

    def add_node(self) -> Node:
        """A node that is not started."""
        number = len(self.nodes) + 1
        settings = node_settings(
            number, self._voters, flushes=self.flushes, snapshot_bytes=self._snapshot_bytes
        )
        settings |= self.security.node_settings(number) | self.rot.node_settings()
        node = Node(self.world, number, settings)
        self.nodes.append(node)
        return node

    # ---- what faults and checks ask

    @property
    def topics(self) -> list[str]:
        return list(self.partition_counts)

    @property
    def partitions(self) -> list[Partition]:
        """All partitions that are written and read."""
        return [*self.group_partitions, *((topic, 0) for topic in self.compacted)]

    @property
    def placed_partitions(self) -> list[Partition]:
        """All partitions to whose leaders and replicas something happens."""
        return [*self.partitions, *self.transactions.partitions]

    @property
    def group_partitions(self) -> list[Partition]:
        """The partitions of which nothing goes away: the group reads and commits all of it."""
        return [(topic, index) for topic, count in self.partition_counts.items() for index in range(count)]

    def say(self, what: str) -> None:
        """One line of the story."""
        line = f"{self.world.now:8.3f}  {what}"
        self.lines.append(line)
        if self._listen is not None:
            self._listen(line)

    def leader_of(self, partition: Partition) -> Node | None:
        """The node that leads a partition now, in its own opinion."""
        for node in self.nodes:
            hosted = node.broker.partitions.find(*partition) if node.is_ready and node.broker else None
            if hosted is not None and hosted.replica.is_leader:
                return node
        return None

    def named_leader_of(self, partition: Partition) -> Node | None:
        """The node that leads a partition by the newest metadata of any node, perhaps without knowing it yet."""
        newest = (-1, -1)
        for node in self.nodes:
            topics = node.broker.quorum.image.topics_by_name if node.is_ready and node.broker else {}
            topic = topics.get(partition[0])
            placed = None if topic is None else topic.partition(partition[1])
            if placed is not None:
                newest = max(newest, (placed.leader_epoch, placed.leader))
        return self.nodes[newest[1] - 1] if newest[1] > 0 else None

    def is_dispensable(self, lost: Node) -> bool:
        """Whether all other nodes are well, and no partition counts on this node's disk any more."""
        others = [node for node in self.nodes if node is not lost]
        if not all(node.is_ready for node in others):
            return False
        for node in others:
            assert node.broker is not None
            image = node.broker.quorum.image
            for _, partition in image.partitions():
                isr = set(partition.isr) - {lost.number}
                if lost.number in partition.isr or len(isr) < 2:
                    return False
        return True

    # ---- the story

    def run(self) -> Outcome:
        """Tell it to the end."""
        gc.disable()
        sendfile_bytes = self.world.dice.choice((64, 400, send_queue.SENDFILE_BYTES))
        try:
            with (
                patch.object(send_queue, "SENDFILE_BYTES", sendfile_bytes),
                self._watcher.votes.listening(),
                self.security.reproduced(),
                self.transactions.epochs_end(),
            ):
                self._tell()
        except Exception as error:
            self.ledger.broken.append("".join(traceback.format_exception(error)))
        self.ledger.counts["votes"] = self._watcher.votes.heard
        outcome = Outcome(
            self.seed,
            [*self.ledger.broken, *self.world.problems],
            self.world.trace,
            self.world.now,
            dict(self.ledger.counts),
            self.lines,
        )
        self.world.bury()
        gc.enable()
        return outcome

    def _tell(self) -> None:
        secured = ", secured" if self.security.is_on else ""
        self.say(f"{len(self.nodes)} nodes, {self.partition_counts}, flushes: {self.flushes}{secured}")
        for node in self.nodes:
            node.start()
        if not self._until(lambda: all(node.is_ready for node in self.nodes), _START_S, "all nodes start"):
            return
        self._start_clients()
        self._watcher.look()
        self._names = self._possible_faults()
        until_s = self.world.now + self._faults_s
        fates = [self._fate.create_task(self._draw_faults(until_s)) for _ in range(3)]
        if self.rot.is_due:
            fates.append(self._fate.create_task(self.rot.run(until_s, self._faults.losses)))
        if self.voter_changes.are_due:
            fates.append(self._fate.create_task(self.voter_changes.run(until_s)))
        if not self._until(lambda: all(fate.done() for fate in fates), 600, "faults end"):
            return
        for fate in fates:
            fate.result()
        self._faults.heal_all()
        if self._heal() and self._write_across_a_cut() and self._finish():
            self._check_logs()

    def _start_clients(self) -> None:
        world, servers, ledger, dice = self.world, self.servers, self.ledger, self.world.dice
        self.administrator = Administrator(world, "admin", servers, ledger, group=GROUP)
        self.administrator.order(self._create_topics)
        self.administrator.order(self.voter_changes.begin)
        self._until(lambda: self.administrator.is_idle, 30, "topics are created")
        promises = (Promise.ONCE, Promise.ONCE, dice.choice((Promise.ONCE, Promise.KEPT, Promise.NONE)))
        self._writers = [
            Writer(world, f"w{n}", servers, ledger, lambda: self.partitions, promise=promise)
            for n, promise in enumerate(promises)
        ]
        fleeting = [(FLEETING, 0), (FLEETING, 1)]
        self._fleeting = Writer(world, "f0", servers, Ledger(), lambda: fleeting, longest_pause_s=4.0)
        self._pipeline = Pipeline(world, "p0", servers, ledger, lambda: self.partitions, self.leader_of)
        self._reader = Reader(world, "r0", servers, ledger, lambda: self.partitions)
        strategy = dice.choice(("range", "roundrobin", "sticky", "cooperative-sticky"))
        is_static = dice.random() < 0.3
        self._members = [
            Member(
                world,
                f"m{n}",
                servers,
                ledger,
                group=GROUP,
                topics=self.topics,
                strategy=strategy,
                is_static=is_static,
                is_automatic=self._commits_automatically,
            )
            for n in range(dice.randrange(1, 4))
        ]
        self._sequenced = [
            SequencedWriter(world, "q0", servers, ledger, lambda: self.partitions, self.named_leader_of)
            for _ in range(self.seed % SEQUENCED_EVERY == 0)
        ]
        writing = [*self._writers, self._fleeting, self._pipeline, *self._sequenced]
        self.transactions.enter()
        self.clients = [
            *writing,
            self._reader,
            *self._members,
            self.administrator,
            *self.transactions.clients,
        ]

    async def _create_topics(self, admin: ottla.Admin) -> None:
        wanted = {**self.partition_counts, FLEETING: 2}
        topics = [ottla.NewTopic(name, partitions=count) for name, count in wanted.items()]
        topics += [ottla.NewTopic(name, partitions=1, configs=COMPACTED) for name in self.compacted]
        await self.security.begin(admin)
        await admin.create_topics([*topics, *self.transactions.topics])

    def _possible_faults(self) -> list[str]:
        """The names that faults are drawn from: in most stories a few only, so that they meet more often."""
        dice, table = self.world.dice, self._faults.table()
        possible = list(table)
        if dice.random() < 0.6:
            possible = dice.sample(possible, dice.randrange(2, 9))
        if self.security.is_on:
            possible = list(dict.fromkeys([*possible, *SECURITY_FAULTS]))
        if self.voter_changes.are_due:
            possible = [name for name in possible if name not in LOST_DISKS] or ["kill"]
        wanted = [
            name for name in self.wanted_faults if name in table
        ]  # those of security are not in every story
        return [name for name in wanted or possible for _ in range(table[name][0])]

    async def _draw_faults(self, until_s: float) -> None:
        dice, table, names = self.world.dice, self._faults.table(), self._names
        while True:
            await asyncio.sleep(dice.uniform(0.05, 0.8))
            if self.world.now >= until_s:
                return
            self.ledger.counts["faults"] += 1
            await table[dice.choice(names)][1]()

    def _heal(self) -> bool:
        """Wait until every partition has its leader and all its replicas in sync."""
        return self._until(self._is_whole, _HEALING_S, "the cluster heals", check_every_s=0.2)

    def _is_whole(self) -> bool:
        if not all(node.is_ready for node in self.nodes):
            return False
        image = self.nodes[0].broker.quorum.image  # type: ignore[union-attr]
        for topic, partition in image.partitions():
            if partition.leader < 0 or set(partition.isr) != set(partition.replicas):
                return False
            if partition.adding_replicas or partition.removing_replicas:
                return False
            leading = self.nodes[partition.leader - 1].broker.partitions.find(topic.name, partition.index)  # type: ignore[union-attr]
            if leading is None or not leading.replica.is_leader:
                return False
        return self.administrator.is_idle and self.security.is_settled(self.nodes) and self.rot.is_repaired()

    def _write_across_a_cut(self) -> bool:
        """In some stories a leader and a follower do not hear each other: writes go on, while the cut lasts."""
        dice, network = self.world.dice, self.world.network
        self.ledger.healed()
        leader = self.leader_of(dice.choice(self.placed_partitions))
        if leader is None or dice.random() >= _CUT_SHARE:
            return True
        if any(len(placed.isr) < 3 for _, placed in leader.broker.quorum.image.partitions()):  # type: ignore[union-attr]
            return True  # moved to two nodes: without one of them there are too few
        other = dice.choice([node for node in self.nodes if node is not leader])
        self.say(f"cut between {leader.host}, which leads, and {other.host}")
        network.cut(leader.host, other.host)
        network.cut(other.host, leader.host)
        writer = LastWriter(self.world, "cut", self.servers, self.ledger, lambda: self.partitions)
        is_written = self._until(
            lambda: writer.is_done, _CUT_S, "every partition takes a record across a cut"
        )
        network.heal_all()
        return is_written and self._heal()

    def _finish(self) -> bool:
        """Every partition takes a record; the group reads to the end; everybody stops."""
        writers: list[Client] = [*self._writers, self._fleeting, self._pipeline, *self._sequenced]
        writers += self.transactions.writers
        self._reader.read_to_the_end()
        for writer in writers:
            writer.stop()
        if not self._until(lambda: all(writer.is_done for writer in writers), 60, "writers finish"):
            return False
        last = LastWriter(self.world, "last", self.servers, self.ledger, lambda: self.partitions)
        if not self._until(lambda: last.is_done, 30, "every partition takes a record"):
            return False
        if not self.transactions.leave(self._until):
            return False
        if not self._until(self._is_read, 60, "the group and the reader read to the end", check_every_s=0.2):
            return False
        self.administrator.order(self._ask_offsets)
        if not self._until(lambda: self.administrator.is_idle, 30, "committed offsets are told"):
            return False
        for client in self.clients:
            client.stop()
        return self._until(lambda: all(client.is_done for client in self.clients), 60, "clients stop")

    async def _ask_offsets(self, admin: ottla.Admin) -> None:
        # A record that was held on its way may arrive, and be read and committed, after the answer.
        self._promised = dict(self.ledger.committed)
        offsets = await admin.list_group_offsets(GROUP)
        for partition, committed in offsets.items():
            if isinstance(committed, CommittedOffset):
                self._committed[partition.topic, partition.partition] = committed.offset

    def _is_read(self) -> bool:
        ends = self.ledger.known_end
        # Commits that nobody asked for are known from the coordinator only.
        committed = self.ledger.told if self._commits_automatically else self.ledger.committed
        is_committed = all(committed.get((GROUP, each), 0) >= ends[each] for each in self.group_partitions)
        return is_committed and self._reader.is_at_the_end

    def _check_logs(self) -> None:
        audit = Audit(self.ledger)
        self._until(lambda: False, 1.0, "")
        # A request that the broker holds back, as JoinGroup, ends with its own time.
        if not self._until(
            lambda: not leftovers(self.nodes), 10, "brokers forget clients that are gone", 0.1
        ):
            self.ledger.broken += leftovers(self.nodes)
        # The session of a static member may end only now, and its coordinator writes that down.
        self._until(self._is_replicated, 10, "")
        image = self.nodes[0].broker.quorum.image  # type: ignore[union-attr]
        for topic, placed in image.partitions():
            replicas = {
                number: log_bytes(self.nodes[number - 1].disk, f"/data/{number}", (topic.name, placed.index))
                for number in placed.replicas
            }
            partition = topic.name, placed.index
            if topic.name in self.compacted:
                found = {number: names_of(data) for number, data in replicas.items()}
                audit.check_compacted(partition, found, self.compacted[topic.name])
                continue
            audit.compare_replicas(partition, replicas, may_begin_later=topic.name == FLEETING)
            if topic.name in self.partition_counts:
                audit.check_partition(partition, names_of(replicas[placed.leader]))
        audit.check_order()
        self.transactions.check()
        for partition in self.group_partitions:
            promised = self._promised.get((GROUP, partition), 0)
            audit.check_group(GROUP, partition, promised, self._committed.get(partition, 0))

    def _is_replicated(self) -> bool:
        """Whether all replicas end at the same offset."""
        brokers = [node.broker for node in self.nodes if node.broker is not None]
        ends: dict[str, set[int]] = {}
        for broker in brokers:
            for partition in broker.partitions:
                ends.setdefault(partition.name, set()).add(partition.log.log_end_offset)
        return all(len(each) == 1 for each in ends.values())

    def _until(
        self, condition: Callable[[], bool], limit_s: float, what: str, check_every_s: float = 0.02
    ) -> bool:
        """Run until a condition holds, something is broken, or the time is over, which is a broken promise as well."""
        world, broken, problems = self.world, self.ledger.broken, self.world.problems
        next_check = 0.0

        def is_over() -> bool:
            nonlocal next_check
            if world.now < next_check:
                return False
            next_check = world.now + check_every_s
            return bool(broken or problems) or condition()

        if not world.run(is_over, world.now + limit_s) and what:
            broken.append(f"not within {limit_s:.0f} s: {what}")
        return not broken and not problems
