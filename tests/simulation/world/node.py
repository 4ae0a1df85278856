"""One broker of the simulated cluster: the shipped `Broker`, its incarnations, its disk and its clock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.simulation.world.edge import runtime_of
from tests.simulation.world.node_disk import NodeDisk

from ottla.config import BrokerConfig
from ottla.errors import KafkaError
from ottla.server.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.simulation.world.process import ProcessLoop
    from tests.simulation.world.scheduler import World


class Node:
    """A machine with one disk, on which brokers run one after the other."""

    def __init__(self, world: World, number: int, settings: Mapping[str, str]) -> None:
        self.world = world
        self.number = number
        self.host = f"n{number}"
        self.disk = NodeDisk()
        self.disks = 1  # so many this machine has had
        self.clock_offset_s = 0.0
        self.slowness = 1.0
        self.crash_loses_power = (
            False  # whether a crash in the middle of a disk operation is one of the machine
        )
        self.incarnation = 0
        self.boots = 1
        self.process: ProcessLoop | None = None
        self.broker: Broker | None = None
        self.is_started = False
        self.failure: str | None = None
        self._loses_power = False
        self._config = BrokerConfig.from_properties(settings)
        self._starting: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is a process, ready or not."""
        return self.process is not None and not self.process.is_dead

    @property
    def is_ready(self) -> bool:
        """Whether the broker has started and can go on."""
        return self.is_running and self.is_started and not self.has_halted

    @property
    def is_controller(self) -> bool:
        """Whether the node leads the quorum, in its own opinion."""
        if not self.is_ready:
            return False
        assert self.broker is not None
        return self.broker.quorum.member.replica.is_leader

    @property
    def has_halted(self) -> bool:
        return self.broker is not None and self.broker.halted.done()

    def start(self) -> None:
        """Start a process."""
        assert not self.is_running
        self.incarnation += 1
        self.is_started = False
        self.failure = None
        self.world.network.power_back(self.host)
        process = self.process = self.world.start(f"{self.host}#{self.incarnation}", self.host)
        process.clock_offset_s = self.clock_offset_s
        disk = self.disk
        disk.on_crash = lambda: self.kill(loses_power=self.crash_loses_power)
        process.on_killed = lambda: self._died(process, disk)
        runtime = runtime_of(process, disk, lambda: self.slowness, f"{self.host} boot {self.boots}")
        self._starting = process.create_task(self._run(process, runtime))

    async def _run(self, process: ProcessLoop, runtime: object) -> None:
        broker = self.broker = Broker(self._config, runtime)  # type: ignore[arg-type]
        try:
            await broker.start()
        except (OSError, KafkaError) as problem:
            self.failure = str(problem)
            process.kill()
            return
        self.is_started = True
        reason = await broker.halted
        if self.is_started:
            # As `ottla serve` does.
            self.failure = reason
            self.is_started = False
            await self._stop(process)

    def stop(self) -> None:
        """Stop as SIGTERM does: hand over, flush, mark the stop as clean; the process ends when that is done."""
        process = self.process
        if process is None or process.is_dead or not self.is_started:
            return
        self.is_started = False
        process.create_task(self._stop(process))

    async def _stop(self, process: ProcessLoop) -> None:
        assert self.broker is not None
        await self.broker.stop()
        process.kill()

    def kill(self, *, loses_power: bool = False) -> None:
        """End the process at once; with a loss of power, what was not synced may be gone."""
        process = self.process
        if process is None or process.is_dead:
            return
        if loses_power:
            self.world.network.power_lost(self.host)
        self._loses_power = loses_power
        process.kill()

    def wipe(self) -> None:
        """Lose the disk's content."""
        assert not self.is_running
        self.disk = NodeDisk()
        self.disks += 1

    def set_clock(self, offset_s: float) -> None:
        """Set the time of day to so much before or after the world's."""
        self.clock_offset_s = offset_s
        if self.process is not None:
            self.process.clock_offset_s = offset_s

    def _died(self, process: ProcessLoop, disk: NodeDisk) -> None:
        loses_power, self._loses_power = self._loses_power, False
        self.is_started = False
        if loses_power:
            self.boots += 1
        else:
            self.world.network.killed(process)
        self.disk = disk.next_incarnation(self.world.dice, loses_power=loses_power)
