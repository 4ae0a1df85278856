"""Faults of processes: killed, stopped, held, chased; clocks that jump; nodes that join."""

from __future__ import annotations

from tests.simulation.stories.fault_kind import FaultTable, Kind


class ProcessFaults(Kind):
    """What happens to the processes of nodes."""

    def table(self) -> FaultTable:
        """Name → how often it is drawn, what it does."""
        return {
            "kill": (6, self.kill),
            "kill-two": (3, self.kill_two),
            "kill-all": (2, self.kill_all),
            "kill-controller": (3, self.kill_controller),
            "chase": (2, self.chase),
            "stop": (3, self.stop),
            "rolling": (2, self.rolling),
            "crash-in-write": (4, self.crash_in_write),
            "pause": (5, self.pause),
            "grow": (1, self.grow),
            "clock": (3, self.clock),
        }

    async def kill(self) -> None:
        await self._down(self._some(1))

    async def kill_two(self) -> None:
        await self._down(self._some(2))

    async def kill_all(self) -> None:
        await self._down(self._some(len(self._story.nodes)))

    async def kill_controller(self) -> None:
        """Kill the node that leads the quorum, in its own opinion."""
        await self._down(self._controllers()[:1])

    async def grow(self) -> None:
        """A node more: a broker without a vote."""
        if len(self._story.nodes) < 6:
            node = self._story.add_node()
            self._say(f"start {node.host}, which is new")
            node.start()
        await self._sleep(0.3, 1.5)

    async def chase(self) -> None:
        """Kill whoever leads the first partition, again and again."""
        for _ in range(3):
            leader = self._story.leader_of(self._dice.choice(self._story.placed_partitions))
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

    async def clock(self) -> None:
        for node in self._some(1):
            offset_s = self._dice.choice((-7200.0, -5.0, 3.0, 600.0, 36_000.0, 0.0))
            self._say(f"set the clock of {node.host} to {offset_s:+.0f} s")
            node.set_clock(offset_s)
        await self._sleep(0.3, 1.8)
