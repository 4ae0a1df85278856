"""What goes wrong in a story of a cluster, and what its administrator does meanwhile.

Processes are killed, stopped, stand still; power fails; disks are lost; links are cut and slow. Kafka's promise about power is kept in mind:
where acknowledged writes are flushed everywhere (`Site.flushes`), power may fail anywhere and everywhere at once. Where they are not,
it fails on one machine at a time, when all replicas are in sync and nothing else is wrong, and the next fault comes when they
are in sync again. The same holds for a lost disk, of a minority, in every story.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.cluster import US_PER_MS
from tests.simulation.network import CALM, Conditions
from tests.simulation.node import Node

if TYPE_CHECKING:
    from tests.simulation.cluster_story import ClusterStory

MS = US_PER_MS
WEATHER = (
    CALM,
    CALM,
    Conditions(max_delay_us=15 * MS),
    Conditions(max_delay_us=8 * MS, slow_delay_us=200 * MS, slow_share=0.1),
    Conditions(max_delay_us=5 * MS, loss_share=0.08),
    Conditions(
        max_delay_us=20 * MS, slow_delay_us=250 * MS, slow_share=0.08, double_share=0.3, loss_share=0.03
    ),
)
DISKS = ((100, 1 * MS), (100, 5 * MS), (1 * MS, 40 * MS))
SETTLED_POLLS = 16
POLL_MS = 25
SETTLING_MS = 1_200
MAX_NODES = 6


class ClusterFaults:
    """The trouble of one story."""

    def __init__(self, story: ClusterStory) -> None:
        self._story = story
        self.random = story.random
        self._is_guarded = False  # nothing else may go wrong now
        self._settled_polls = 0
        self._pace_ms = self.random.choice((40, 100, 250))
        self._silence_ms = 0
        self._death_share = 0.001 if self.random.random() < 0.2 else 0.0
        self._restarts_soon = self.random.random() < 0.3
        self._acts = self._draw_acts()
        story.site.raft.power_loss_share = 0.5 if story.site.flushes else 0.0
        if self.random.random() < 0.2:
            story.site.raft.trim_share = 0.1
        story.site.raft.death_share = self._death_share

    def _draw_acts(self) -> list[Callable[[], None]]:
        """Some kinds of faults, some more often than others: what is rare among all is common in some story."""
        faults = [
            self._crash,
            self._crash_leader,
            self._crash_controller,
            self._crash_some,
            self._crash_all,
            self._chase_leader,
            self._pause,
            self._isolate,
            self._isolate_leader,
            self._cut_one_way,
            self._split,
            self._cut_clients,
            self._reset_connections,
            self._change_weather,
            self._change_disks,
            self._shut_down,
            self._roll,
            self._fall_silent,
            self._fall_silent,
            self._lose_power,
            self._lose_disk,
            self._take_snapshot,
            self._trim,
        ]
        administrator = self._story.administrator
        deeds = [
            administrator.add_partitions,
            administrator.reassign,
            administrator.reassign,
            administrator.cancel,
            administrator.drain,
            administrator.rebalance,
            administrator.elect_preferred,
            self._grow,
        ]
        random = self.random
        chosen = random.sample(faults, random.randint(2, 10)) + random.sample(deeds, random.randint(0, 4))
        return [*chosen, *random.choices(chosen, k=4), self._heal_links]

    def strike(self) -> None:
        """One act, and the next one later."""
        if self._story.is_healed:
            return
        self._silence_ms = 0
        if not self._is_guarded:
            act = self.random.choice(self._acts)
            self._story.checks.counts["faults"] += 1
            self._story.trace(act.__name__.lstrip("_"))
            act()
        delay_ms = self._silence_ms + self.random.randint(1, 2 * self._pace_ms)
        self._after(delay_ms, self.strike)

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._story.cluster.schedule.after(delay_ms * MS, action)

    # ---- who

    @property
    def _nodes(self) -> list[Node]:
        return list(self._story.nodes.values())

    def _anyone(self) -> Node:
        return self.random.choice(self._nodes)

    def _controller(self) -> Node:
        """The node that decides, or anyone."""
        active = [node for node in self._nodes if node.metadata.is_active]
        return self.random.choice(active) if active else self._anyone()

    def _leader(self) -> Node:
        """Who leads some partition, or anyone."""
        placed = [partition for _, partition in self._story.checks.image.partitions()]
        leaders = [partition.leader for partition in placed if partition.leader >= 0]
        return self._story.nodes[self.random.choice(leaders)] if leaders else self._anyone()

    def _victim(self) -> Node:
        return self.random.choice((self._anyone, self._leader, self._controller))()

    def _ids(self) -> list[int]:
        return list(self._story.nodes)

    # ---- processes

    def _stop(self, node: Node) -> None:
        if not self._is_guarded and not self._story.is_healed:
            may_lose = self._story.site.flushes
            node.stop(is_power_loss=may_lose and self.random.random() < 0.6)

    def noticed_death(self, node: Node, is_power_loss: bool) -> None:
        """A process is gone: the kernel closes its connections, if it has power; somebody starts it again."""
        story = self._story
        if not is_power_loss:
            for other in self._nodes:
                if other is not node:
                    story.cluster.pass_on(
                        node.node_id, other.node_id, partial(other.disconnected, node.node_id)
                    )
        story.cluster.schedule.after(self._down_us(), node.start)

    def _down_us(self) -> int:
        downs = (2, 10) if self._restarts_soon else (5, 40, 200, 600)
        return self.random.choice(downs) * self.random.randint(500, 1_500)

    def _crash(self) -> None:
        self._stop(self._anyone())

    def _crash_leader(self) -> None:
        """In the middle of writes, for that is when it hurts."""
        leader = self._leader()
        partitions = self._story.partitions()
        for producer in self._story.producers if partitions else ():
            producer.write(self.random.choice(partitions))
        delay_us = self.random.randint(0, 8 * MS)
        self._story.cluster.schedule.after(delay_us, partial(self._stop, leader))

    def _crash_controller(self) -> None:
        self._stop(self._controller())

    def _crash_some(self) -> None:
        """A storm: several at once, or shortly after each other."""
        for node in self.random.sample(self._nodes, self.random.randint(2, len(self._nodes))):
            self._after(self.random.randint(0, 60), partial(self._stop, node))

    def _crash_all(self) -> None:
        for node in self._nodes:
            self._stop(node)

    def _chase_leader(self) -> None:
        """Kill each new leader."""
        for number in range(self.random.randint(2, 4)):
            self._after(number * self.random.randint(60, 200), lambda: self._stop(self._leader()))

    def _pause(self) -> None:
        node = self._victim()
        node.pause()
        self._story.cluster.schedule.after(self._down_us(), node.resume)

    def _shut_down(self) -> None:
        self._victim().shut_down()

    def _roll(self) -> None:
        """One after the other is stopped as it should be."""
        for number, node in enumerate(self._nodes):
            self._after(number * 150, partial(self._stop_cleanly, node))

    def _stop_cleanly(self, node: Node) -> None:
        if not self._is_guarded and not self._story.is_healed:
            node.shut_down()

    # ---- the network

    def _isolate(self) -> None:
        ids = [*self._ids(), *(self._story.clients if self.random.random() < 0.5 else ())]
        self._story.cluster.network.part([self._anyone().node_id], ids)

    def _isolate_leader(self) -> None:
        """It does not know, and its clients write on."""
        self._story.cluster.network.part([self._leader().node_id], self._ids())

    def _cut_one_way(self) -> None:
        node, ids = self._victim(), self._ids()
        others = self.random.sample(ids, self.random.randint(1, len(ids)))
        if self.random.random() < 0.5:
            self._story.cluster.network.cut([node.node_id], others)
        else:
            self._story.cluster.network.cut(others, [node.node_id])

    def _split(self) -> None:
        ids = self._ids()
        some = self.random.sample(ids, self.random.randint(1, len(ids)))
        self._story.cluster.network.part(some, set(ids) - set(some))

    def _cut_clients(self) -> None:
        some = self.random.sample(self._story.clients, 2)
        self._story.cluster.network.part(some, [self._anyone().node_id])

    def _reset_connections(self) -> None:
        """Connections die although nobody does."""
        node = self._victim()
        for other in self._nodes:
            if other is not node:
                self._story.cluster.pass_on(
                    node.node_id, other.node_id, partial(other.disconnected, node.node_id)
                )

    def _heal_links(self) -> None:
        self._story.cluster.network.heal()

    def _change_weather(self) -> None:
        self._story.cluster.network.conditions = self.random.choice(WEATHER)

    def _change_disks(self) -> None:
        raft = self._story.site.raft
        raft.flush_us, raft.persist_us = self.random.choice(DISKS), self.random.choice(DISKS)
        self._story.site.flush_us = self.random.choice(DISKS)

    def _fall_silent(self) -> None:
        """No faults for a while."""
        self._calm_down()
        self._silence_ms = 500

    # ---- disks

    def _lose_power(self) -> None:
        """Of one machine, when that must not do any harm."""
        if self._story.site.flushes:
            self._anyone().stop(is_power_loss=True)
        else:
            self._when_settled(lambda: self._victim().stop(is_power_loss=True))

    def _lose_disk(self) -> None:
        self._when_settled(self._change_disk)

    def _change_disk(self) -> None:
        node, raft = self._anyone(), self._story.site.raft
        voters = [self._story.nodes[voter].member for voter in raft.voters.ids]
        forgetful = {voter.node_id for voter in voters if voter.disk.memory is None} | {node.node_id}
        if len(voters) - len(forgetful & raft.voters.ids) >= raft.voters.majority:
            raft.checks.disks_lost += node.member.is_voter
            node.lose_disk(self._story.new_disk(None))

    def _when_settled(self, accident: Callable[[], None]) -> None:
        """Let nothing else go wrong until everybody is in sync; then this; then nothing else until they are again."""
        self._is_guarded = True
        self._calm_down()
        self._settled_polls = 0
        self._after(POLL_MS, partial(self._settle, accident, SETTLING_MS))

    def _settle(self, accident: Callable[[], None] | None, patience_ms: int) -> None:
        story = self._story
        if story.is_healed:
            return
        is_settled = story.is_settled() and story.checks.is_whole()
        self._settled_polls = self._settled_polls + 1 if is_settled else 0
        if self._settled_polls < (SETTLED_POLLS if accident is not None else 1):
            if patience_ms > 0 or accident is None:
                self._after(POLL_MS, partial(self._settle, accident, patience_ms - POLL_MS))
                return
        elif accident is not None and self._has_spare_replicas():
            story.trace("the accident")
            accident()
            self._after(POLL_MS, partial(self._settle, None, SETTLING_MS))
            return
        self._is_guarded = False
        story.site.raft.death_share = self._death_share

    def _has_spare_replicas(self) -> bool:
        return all(len(partition.isr) > 1 for _, partition in self._story.checks.image.partitions())

    def _calm_down(self) -> None:
        """Nothing is wrong any more."""
        network = self._story.cluster.network
        network.heal()
        network.conditions = CALM
        self._story.site.raft.death_share = 0.0 if self._is_guarded else self._death_share
        for node in self._nodes:
            node.resume()
            node.start()

    def _take_snapshot(self) -> None:
        self._anyone().member.take_snapshot(trims=self.random.random() < 0.7)

    def _trim(self) -> None:
        self._leader().broker.trim(self.random.random())

    # ---- the administrator

    def _grow(self) -> None:
        """A machine more."""
        if len(self._nodes) < MAX_NODES:
            node = self._story.add_node(None)
            self._story.cluster.schedule.after(0, node.start)

    # ---- and the end

    def heal(self) -> None:
        site = self._story.site
        self._is_guarded = True
        self._calm_down()
        site.raft.flush_us = site.raft.persist_us = site.flush_us = DISKS[0]
