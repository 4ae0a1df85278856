"""What an administrator does meanwhile, and what happens to clients."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.simulation.stories.clients import TROUBLE
from tests.simulation.stories.fault_kind import FaultTable, Kind
from tests.simulation.stories.settings import FLEETING

import ottla
from ottla.client.requests.configs import ConfigChange, ConfigResource, ResourceType


class Deeds(Kind):
    """Orders to the administrator; clients that crash or are held."""

    def table(self) -> FaultTable:
        """Name → how often it is drawn, what it does."""
        return {
            "crash-client": (3, self.crash_client),
            "pause-client": (2, self.pause_client),
            "recreate": (2, self.recreate),
            "add-partitions": (1, self.add_partitions),
            "reassign": (3, self.reassign),
            "cancel-moves": (1, self.cancel_moves),
            "elect": (1, self.elect),
            "delete-records": (1, self.delete_records),
            "min-isr": (2, self.min_isr),
            "flush-setting": (1, self.flush_setting),
        }

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
        topic, index = self._dice.choice(self._story.placed_partitions)
        numbers = [node.number for node in self._story.nodes]
        replicas = self._dice.sample(numbers, 3 if len(numbers) > 3 else self._dice.choice((2, 3)))

        async def work(admin: ottla.Admin) -> None:
            await admin.alter_reassignments({ottla.TopicPartition(topic, index): replicas})

        self._say(f"reassign {topic}-{index} to {replicas}")
        self._story.administrator.order(work)
        await self._sleep(0.3, 1.8)

    async def cancel_moves(self) -> None:
        partitions = {ottla.TopicPartition(*each): None for each in self._story.placed_partitions}

        async def work(admin: ottla.Admin) -> None:
            await admin.alter_reassignments(partitions)

        self._say("cancel all moves of replicas")
        self._story.administrator.order(work)
        await self._sleep(0.1, 1)

    async def delete_records(self) -> None:
        """Delete the first records of a topic about which nothing is promised."""
        place, offset = ottla.TopicPartition(FLEETING, 0), self._dice.randrange(1, 30)

        async def work(admin: ottla.Admin) -> None:
            await admin.delete_records({place: offset})

        self._say(f"delete the records of {FLEETING}-0 below {offset}")
        self._story.administrator.order(work)
        await self._sleep(0.1, 1)

    async def elect(self) -> None:
        partitions = [ottla.TopicPartition(*each) for each in self._story.placed_partitions]

        async def work(admin: ottla.Admin) -> None:
            await admin.elect_leaders(partitions)

        self._say("elect preferred leaders")
        self._story.administrator.order(work)
        await self._sleep(0.3, 1.2)

    async def min_isr(self) -> None:
        """Change how many replicas must have a record, while producers send to the topic."""
        topic = self._dice.choice(self._story.topics)
        count = self._dice.choice(("1", "2", "3"))
        if count == "1":
            if not self._losses.may_commit_alone():
                return
            self._story.copies.one_is_enough()
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

    async def set_back(self, admin: ottla.Admin) -> None:
        """All topics can be written again with two replicas in sync."""
        for topic in self._story.topics:
            while True:
                with suppress(*TROUBLE):
                    ottla.succeeded(await admin.alter_configs(_change(topic, "min.insync.replicas", "2")))
                    break
                await asyncio.sleep(0.2)


def _change(topic: str, name: str, value: str) -> dict[ConfigResource, list[ConfigChange]]:
    return {ConfigResource(ResourceType.TOPIC, topic): [ConfigChange(name, value)]}
