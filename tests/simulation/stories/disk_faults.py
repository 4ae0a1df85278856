"""Faults of disks and of power."""

from __future__ import annotations

import asyncio

from tests.simulation.stories.fault_kind import FaultTable, Kind


class DiskFaults(Kind):
    """What happens to the disks of nodes."""

    def table(self) -> FaultTable:
        """Name → how often it is drawn, what it does."""
        return {
            "power": (4, self.power),
            "power-all": (2, self.power_all),
            "power-unflushed": (2, self.power_unflushed),
            "wipe": (2, self.wipe),
            "wipe-any": (2, self.wipe_any),
            "full-disk": (2, self.full_disk),
            "read-error": (1, self.read_error),
            "sync-error": (1, self.sync_error),
            "write-error": (1, self.write_error),
            "slow-disk": (3, self.slow_disk),
            "spoil-index": (1, self.spoil_index),
        }

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

    async def write_error(self) -> None:
        """The disk of a node, mostly of the controller, takes nothing any more."""
        nodes = self._controllers() if self._dice.random() < 0.6 else self._some(1)
        node = nodes[0]
        if self._losses.may_lose_disk(node):
            self._say(f"writes fail on {node.host}")
            disk = node.disk
            disk.writes_fail = True
            await self._sleep(0.06, 1.2)
            disk.writes_fail = False
            await self._replace_if_broken(node)

    async def slow_disk(self) -> None:
        for node in self._some(1):
            node.slowness = self._dice.choice((20.0, 200.0, 1000.0))
            self._say(f"work of threads on {node.host} takes {node.slowness:.0f} times as long")
            await self._sleep(0.3, 2.4)
            node.slowness = 1.0
