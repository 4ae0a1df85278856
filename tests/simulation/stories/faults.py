"""The faults of a story, by name. Each is a coroutine that breaks something, waits, and heals it.

Several run at once: nearly all losses that were ever found here needed two faults that met. What a fault leaves broken
when the story's time of faults is over is healed by `Faults.heal_all`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.simulation.stories.clients import TROUBLE
from tests.simulation.stories.losses import Losses
from tests.simulation.stories.settings import HOSTS_PORT

import ottla
from ottla.client.requests.configs import ConfigChange, ConfigResource, ResourceType

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.simulation.stories.story import Story
    from tests.simulation.world.node import Node
    from tests.simulation.world.process import ProcessLoop


def _change(topic: str, name: str, value: str) -> dict[ConfigResource, list[ConfigChange]]:
    return {ConfigResource(ResourceType.TOPIC, topic): [ConfigChange(name, value)]}


async def _send_and_stay(process: ProcessLoop, port: int, data: bytes) -> None:
    with suppress(ConnectionError):
        transport, _ = await process.create_connection(_Deaf, "127.0.0.1", port)
        transport.write(data)


class _Deaf(asyncio.BufferedProtocol):
    """Takes what arrives, and does nothing with it."""

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(1024)


class Faults:
    """What can happen to a story's cluster and clients."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._world = story.world
        self._dice = story.world.dice
        self._network = story.world.network
        self._losses = Losses(story)

    def table(self) -> dict[str, tuple[int, Callable[[], Awaitable[None]]]]:
        """Name → how often it is drawn, what it does."""
        return {
            "kill": (6, self.kill),
            "kill-two": (3, self.kill_two),
            "kill-all": (2, self.kill_all),
            "chase": (2, self.chase),
            "stop": (3, self.stop),
            "rolling": (2, self.rolling),
            "crash-in-write": (4, self.crash_in_write),
            "power": (4, self.power),
            "power-all": (2, self.power_all),
            "power-unflushed": (2, self.power_unflushed),
            "wipe": (2, self.wipe),
            "wipe-any": (2, self.wipe_any),
            "pause": (5, self.pause),
            "cut": (6, self.cut),
            "cut-pair": (4, self.cut_pair),
            "ring": (2, self.ring),
            "cut-clients": (2, self.cut_clients),
            "slow-link": (2, self.slow_link),
            "reset": (4, self.reset),
            "hold": (4, self.hold),
            "clock": (3, self.clock),
            "full-disk": (2, self.full_disk),
            "read-error": (1, self.read_error),
            "sync-error": (1, self.sync_error),
            "slow-disk": (3, self.slow_disk),
            "crash-client": (3, self.crash_client),
            "pause-client": (2, self.pause_client),
            "recreate": (2, self.recreate),
            "add-partitions": (1, self.add_partitions),
            "reassign": (3, self.reassign),
            "elect": (1, self.elect),
            "min-isr": (2, self.min_isr),
            "flush-setting": (1, self.flush_setting),
            "spoil-index": (1, self.spoil_index),
            "garbage": (1, self.garbage),
        }

    # ---- processes

    async def kill(self) -> None:
        await self._down(self._some(1))

    async def kill_two(self) -> None:
        await self._down(self._some(2))

    async def kill_all(self) -> None:
        await self._down(self._some(len(self._story.nodes)))

    async def chase(self) -> None:
        """Kill whoever leads the first partition, again and again."""
        for _ in range(3):
            leader = self._story.leader_of(self._dice.choice(self._story.partitions))
            if leader is not None:
                self._say(f"chase n{leader.number}")
                leader.kill()
                await self._sleep(0.18, 0.9)
                await self._up([leader])

    async def stop(self) -> None:
        for node in self._some(1):
            self._say(f"stop {node.host}")
            node.stop()
            await self._sleep(0.6, 2.4)
            node.kill()
            await self._up([node])

    async def rolling(self) -> None:
        for node in self._some(len(self._story.nodes)):
            self._say(f"rolling restart of {node.host}")
            node.stop()
            await self._sleep(0.48, 0.9)
            node.kill()
            await self._up([node])
            await self._sleep(0.3, 1.2)

    async def crash_in_write(self) -> None:
        """The process dies in the middle of its work on the disk, which a write may leave half done."""
        for node in self._some(1):
            node.crash_loses_power = self._story.flushes and self._dice.random() < 0.5
            node.disk.crash_after = self._dice.randrange(1, 60)
            self._say(f"{node.host} dies at its disk operation {node.disk.crash_after} from now")
            await self._sleep(0.3, 2.4)
            node.disk.crash_after = None
            await self._up([node])

    async def pause(self) -> None:
        for node in self._some(1):
            process = node.process
            if process is not None:
                self._say(f"pause {node.host}")
                process.pause()
                await self._sleep(0.12, 4.2)
                process.go_on()

    # ---- disks

    async def power(self) -> None:
        if self._story.flushes:
            await self._down(self._some(1), loses_power=True)

    async def power_all(self) -> None:
        if self._story.flushes:
            await self._down(self._some(len(self._story.nodes)), loses_power=True)

    async def power_unflushed(self) -> None:
        nodes = self._some(1)
        if self._losses.may_lose_power(nodes[0]):
            await self._down(nodes, loses_power=True)

    async def wipe(self) -> None:
        """A disk is lost while all others are whole, and no partition counts on it any more."""
        for node in filter(self._losses.may_lose_disk, self._some(1)):
            self._say(f"kill {node.host} to wipe it")
            node.kill()
            for _ in range(40):
                await asyncio.sleep(0.2)
                if node.is_running:
                    break
                if self._story.is_dispensable(node):
                    self._say(f"wipe {node.host}")
                    node.wipe()
                    break
            await self._up([node])
            await self._sleep(1.2, 2.4)

    async def wipe_any(self) -> None:
        """A disk is lost at any moment."""
        for node in filter(self._losses.may_lose_disk, self._some(1)):
            self._say(f"kill and wipe {node.host}")
            node.kill()
            node.wipe()
            await self._sleep(0.06, 1.8)
            await self._up([node])

    async def spoil_index(self) -> None:
        """A process is killed, and its disk has lost a part of an index, which can be built again."""
        for node in self._some(1):
            node.kill()
            if node.is_running:
                continue
            indexes = node.disk.files_named((".index", ".timeindex"))
            for path in self._dice.sample(indexes, min(2, len(indexes))):
                self._say(f"cut {path}")
                content = node.disk.content(path)
                del content[int(len(content) * self._dice.random()) :]
            await self._sleep(0, 1)
            await self._up([node])

    async def full_disk(self) -> None:
        for node in filter(self._losses.may_lose_disk, self._some(1)):
            self._say(f"the disk of {node.host} is full")
            node.disk.is_full = True
            disk = node.disk
            await self._sleep(0.18, 2.4)
            disk.is_full = False
            await self._replace_if_broken(node)

    async def read_error(self) -> None:
        for node in self._some(1):
            self._say(f"reads fail on {node.host}")
            disk = node.disk
            disk.reads_fail = True
            await self._sleep(0.06, 1.2)
            disk.reads_fail = False
            await self._replace_if_broken(node)

    async def sync_error(self) -> None:
        for node in filter(self._losses.may_lose_disk, self._some(1)):
            self._say(f"syncs fail on {node.host}")
            disk = node.disk
            disk.syncs_fail = True
            await self._sleep(0.06, 0.6)
            disk.syncs_fail = False
            await self._replace_if_broken(node)

    async def slow_disk(self) -> None:
        for node in self._some(1):
            node.slowness = self._dice.choice((20.0, 200.0, 1000.0))
            self._say(f"work of threads on {node.host} takes {node.slowness:.0f} times as long")
            await self._sleep(0.3, 2.4)
            node.slowness = 1.0

    # ---- network

    async def cut(self) -> None:
        """Cut one node off from everybody: both ways, or one."""
        victim = self._some(1)[0].host
        way = self._dice.choice(("both", "in", "out"))
        self._say(f"cut {victim} off ({way})")
        await self._cut_for(victim, self._others(victim), way, self._dice.uniform(0.2, 4.5))

    async def cut_pair(self) -> None:
        """Two nodes do not hear each other, and both are heard by the rest."""
        one, other = (node.host for node in self._some(2))
        way = self._dice.choice(("both", "in", "out"))
        self._say(f"cut between {one} and {other} ({way})")
        await self._cut_for(one, [other], way, self._dice.uniform(0.2, 3))

    async def ring(self) -> None:
        """Each node hears only its neighbours: every node sees another majority."""
        hosts = [node.host for node in self._story.nodes]
        count = len(hosts)
        if count == 3:
            cuts = [(hosts[i], hosts[(i + 1) % 3]) for i in range(3)]
        else:
            cuts = [
                (hosts[i], hosts[j])
                for i in range(count)
                for j in range(count)
                if (i - j) % count not in (0, 1, count - 1)
            ]
        self._say("ring: each node hears only some others")
        for source, target in cuts:
            self._network.cut(source, target)
        await self._sleep(0.3, 3)
        for source, target in cuts:
            self._network.heal(source, target)

    async def cut_clients(self) -> None:
        """Clients do not reach some node, while nodes reach each other."""
        victim = self._some(1)[0].host
        clients = [client.host for client in self._story.clients]
        self._say(f"cut clients off from {victim}")
        await self._cut_for(victim, clients, "both", self._dice.uniform(0.3, 3))

    async def slow_link(self) -> None:
        victim = self._some(1)[0].host
        self._network.slow[victim] = self._dice.choice((20.0, 100.0))
        self._say(f"the link of {victim} is slow")
        await self._sleep(0.3, 2.4)
        self._network.slow.pop(victim, None)

    async def reset(self) -> None:
        """Break the connections of a node with everybody, or with one other."""
        victim = self._some(1)[0].host
        others = self._others(victim)
        if self._dice.random() < 0.5:
            others = [self._dice.choice(others)]
        self._say(f"reset connections of {victim} with {' '.join(others)}")
        for other in others:
            self._network.reset_between(victim, other)
        await self._sleep(0.06, 0.6)

    async def garbage(self) -> None:
        """Somebody connects to a node, sends random bytes or a part of a request, and stays."""
        node = self._some(1)[0]
        self._say(f"send garbage to {node.host}")
        stranger = self._world.start("stranger", "stranger")
        data = self._dice.randbytes(self._dice.randrange(1, 60))
        if self._dice.random() < 0.5:
            data = b"\0\0\0\x50" + data
        stranger.create_task(_send_and_stay(stranger, HOSTS_PORT + node.number, data))
        await self._sleep(0.1, 1)
        stranger.kill()
        self._network.killed(stranger)

    async def hold(self) -> None:
        """Single connections stand still for long, and go on: what arrives then was said two elections ago."""
        open_now = list(self._network.sockets.values())
        for socket in self._dice.sample(open_now, min(len(open_now), 3)):
            seconds = self._dice.uniform(0.3, 4)
            self._say(f"hold a connection of {socket.host} with {socket.peer.host} for {seconds:.1f} s")
            self._network.hold(socket, seconds)
        await self._sleep(0.6, 1.8)

    # ---- clocks

    async def clock(self) -> None:
        for node in self._some(1):
            offset_s = self._dice.choice((-7200.0, -5.0, 3.0, 600.0, 36_000.0, 0.0))
            self._say(f"set the clock of {node.host} to {offset_s:+.0f} s")
            node.set_clock(offset_s)
        await self._sleep(0.3, 1.8)

    # ---- clients and administration

    async def crash_client(self) -> None:
        client = self._dice.choice(self._story.clients)
        self._say(f"crash {client.name}")
        client.crash()
        await self._sleep(0.06, 0.6)

    async def pause_client(self) -> None:
        client = self._dice.choice(self._story.clients)
        self._say(f"pause {client.name}")
        process = client.process
        process.pause()
        await self._sleep(0.3, 4.2)
        process.go_on()

    async def recreate(self) -> None:
        """Delete a topic that is being written, and create it again."""
        from tests.simulation.stories.story import FLEETING

        async def work(admin: ottla.Admin) -> None:
            await admin.delete_topics([FLEETING])
            await asyncio.sleep(self._dice.random())
            await admin.create_topics([ottla.NewTopic(FLEETING, partitions=2)])

        self._say(f"delete {FLEETING} and create it again")
        self._story.administrator.order(work)
        await self._sleep(0.3, 1.2)

    async def add_partitions(self) -> None:
        topic = self._dice.choice(self._story.topics)

        async def work(admin: ottla.Admin) -> None:
            count = self._story.partition_counts[topic] + 1
            error = (await admin.create_partitions({topic: count}))[topic]
            if error is None:
                self._story.partition_counts[topic] = count

        if self._story.partition_counts[topic] < 4:
            self._say(f"add a partition to {topic}")
            self._story.administrator.order(work)
        await self._sleep(0.3, 1.2)

    async def reassign(self) -> None:
        """Move a partition to other nodes; with three nodes, to fewer or in another order."""
        topic, index = self._dice.choice(self._story.partitions)
        numbers = [node.number for node in self._story.nodes]
        replicas = self._dice.sample(numbers, 3 if len(numbers) > 3 else self._dice.choice((2, 3)))

        async def work(admin: ottla.Admin) -> None:
            await admin.alter_reassignments({ottla.TopicPartition(topic, index): replicas})

        self._say(f"reassign {topic}-{index} to {replicas}")
        self._story.administrator.order(work)
        await self._sleep(0.3, 1.8)

    async def elect(self) -> None:
        partitions = [ottla.TopicPartition(*each) for each in self._story.partitions]

        async def work(admin: ottla.Admin) -> None:
            await admin.elect_leaders(partitions)

        self._say("elect preferred leaders")
        self._story.administrator.order(work)
        await self._sleep(0.3, 1.2)

    async def min_isr(self) -> None:
        """Change how many replicas must have a record, while producers send to the topic."""
        topic = self._dice.choice(self._story.topics)
        count = self._dice.choice(("1", "2", "3"))
        if count == "1" and not self._losses.may_commit_alone():
            return
        await self._set_topic(topic, "min.insync.replicas", count)
        await self._sleep(0.3, 2)
        await self._set_topic(topic, "min.insync.replicas", "2")

    async def flush_setting(self) -> None:
        """Change when records are flushed; a cluster that may lose power goes on flushing at once."""
        often = "1" if self._story.flushes else self._dice.choice(("1", "5"))
        self._losses.flushes_from_now_on(is_at_once=often == "1")
        await self._set_topic(self._dice.choice(self._story.topics), "flush.messages", often)

    async def _set_topic(self, topic: str, name: str, value: str) -> None:
        self._say(f"set {name} of {topic} to {value}")
        self._story.administrator.order(lambda admin: admin.alter_configs(_change(topic, name, value)))
        await self._sleep(0.1, 1)

    # ---- healing

    def heal_all(self) -> None:
        """Take everything back that a cluster cannot heal by itself."""
        self._say("heal everything")
        self._story.administrator.order(self._set_back)
        self._network.cuts.clear()
        self._network.slow.clear()
        for client in self._story.clients:
            client.process.go_on()
        for node in self._story.nodes:
            disk = node.disk
            disk.is_full = disk.reads_fail = disk.syncs_fail = False
            disk.crash_after = None
            node.slowness = 1.0
            node.set_clock(0.0)  # a broker whose clock is hours behind refuses records from the future
            if node.process is not None:
                node.process.go_on()
            if node.is_running and (disk.has_failed or node.has_halted):
                node.kill()
            if not node.is_running:
                node.start()

    async def _set_back(self, admin: ottla.Admin) -> None:
        """All topics can be written again with two replicas in sync."""
        for topic in self._story.topics:
            while True:
                with suppress(*TROUBLE):
                    ottla.succeeded(await admin.alter_configs(_change(topic, "min.insync.replicas", "2")))
                    break
                await asyncio.sleep(0.2)

    # ---- inside

    def _some(self, count: int) -> list[Node]:
        return self._dice.sample(self._story.nodes, count)

    def _others(self, victim: str) -> list[str]:
        nodes = [node.host for node in self._story.nodes if node.host != victim]
        return nodes + [client.host for client in self._story.clients]

    async def _down(self, nodes: list[Node], *, loses_power: bool = False) -> None:
        for node in nodes:
            self._say(f"{'power of' if loses_power else 'kill'} {node.host}")
            node.kill(loses_power=loses_power)
            if self._dice.random() < 0.5:
                await self._sleep(0, 0.9)
        await self._sleep(0, 1.8)
        await self._up(self._dice.sample(nodes, len(nodes)))

    async def _up(self, nodes: list[Node]) -> None:
        for node in nodes:
            if not node.is_running:
                self._say(f"start {node.host}")
                node.start()
            if self._dice.random() < 0.5:
                await self._sleep(0, 1.2)

    async def _replace_if_broken(self, node: Node) -> None:
        """An operator restarts a broker whose disk failed: what it could not write it will never take for written."""
        await self._sleep(0.06, 1.2)
        if node.is_running and node.disk.has_failed:
            self._say(f"restart {node.host} after its disk failed")
            node.kill()
            await self._up([node])

    async def _cut_for(self, victim: str, others: list[str], way: str, seconds: float) -> None:
        cuts = [(victim, other) for other in others if way != "in"]
        cuts += [(other, victim) for other in others if way != "out"]
        for source, target in cuts:
            self._network.cut(source, target)
        await asyncio.sleep(seconds)
        for source, target in cuts:
            self._network.heal(source, target)

    async def _sleep(self, shortest_s: float, longest_s: float) -> None:
        await asyncio.sleep(self._dice.uniform(shortest_s, longest_s))

    def _say(self, what: str) -> None:
        self._story.say(what)
