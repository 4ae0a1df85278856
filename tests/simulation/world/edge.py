"""`ottla.runtime` for one simulated process."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tests.simulation.world.sockets import Door
from tests.simulation.world.threads import SimulatedPool

from ottla.log.compaction.cleaner import Cleaner, CleanerLimits
from ottla.log.compaction.remote_cleaner import MODULE
from ottla.log.compaction.segment_reader import Throttle
from ottla.log.compaction.worker_process import answer
from ottla.runtime.network import ListeningSocket
from ottla.runtime.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world.node_disk import NodeDisk
    from tests.simulation.world.process import ProcessLoop

    from ottla.runtime.disk import Disk

# A Tuesday: late enough for every timestamp that a broker compares with, and the same in every run.
WORLD_STARTS_S: Final = 1_700_000_000.0


class SimulatedClock:
    """The world's time, as far off as the process's clock is."""

    def __init__(self, process: ProcessLoop) -> None:
        self._process = process

    def wall_ms(self) -> int:
        return int(self.wall_s() * 1000)

    def wall_s(self) -> float:
        return WORLD_STARTS_S + self._process.world.now + self._process.clock_offset_s

    def boot_ms(self) -> int:
        return int(self._process.world.now * 1000)


class SimulatedRandomness(Random):
    """Everything from the seed, UUIDs included."""

    def uuid4(self) -> UUID:
        return UUID(int=self.getrandbits(128), version=4)


class SimulatedThreads:
    """Pools whose work takes as long as the disk lets it."""

    def __init__(self, process: ProcessLoop, slowness: Callable[[], float]) -> None:
        self._process = process
        self._slowness = slowness

    def pool(self, size: int, name: str) -> SimulatedPool:
        return SimulatedPool(self._process, size, self._slowness)


class SimulatedNetwork:
    """The accepting side of the world's network."""

    least_room_bytes: Final = 4 * 1024

    def __init__(self, process: ProcessLoop, disk: NodeDisk | None) -> None:
        self._process = process
        self._disk = disk

    def host_name(self) -> str:
        return self._process.host

    def resolve(self, host: str, port: int) -> list[tuple[Any, str]]:
        return [(None, host)]

    def listen(self, family: Any, address: str, port: int, backlog: int) -> ListeningSocket:
        return Door(self._process.world.network, self._process, port)

    def configure(self, accepted: Any, send_buffer_bytes: int, receive_buffer_bytes: int) -> None:
        """Nothing: a simulated socket has no options."""

    def sendfile(self, to: Any, descriptor: int, position: int, size: int) -> int:
        assert self._disk is not None
        data = self._disk.files[descriptor].read(position, size)
        return to.send(data) if data else 0


class SimulatedWorkers:
    """The cleaner without a process of its own: a call is a whole piece of the calling thread's work."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def start(self, module: str, argument: str) -> SimulatedWorker:
        assert module == MODULE
        return SimulatedWorker(self._disk, CleanerLimits(**json.loads(argument)))


class SimulatedWorker:
    """Answers as the cleaner's process does."""

    pid = 1

    def __init__(self, disk: Disk, limits: CleanerLimits) -> None:
        throttle = Throttle(float("inf"), lambda: 0.0, lambda _: None)
        self._cleaner = Cleaner(disk, limits, throttle)
        self._is_killed = False

    def ask(self, line: str) -> str:
        return "" if self._is_killed else json.dumps(answer(self._cleaner, json.loads(line)))

    def kill(self) -> None:
        self._is_killed = True

    def wait(self) -> int:
        return -9

    def close(self) -> None:
        self._is_killed = True


class SimulatedProcess:
    """A process that uses nothing."""

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id

    def cpu_s(self) -> float:
        return 0.0

    def resident_bytes(self) -> int:
        return 32 << 20

    def open_files(self) -> int:
        return 0

    def max_files(self) -> int:
        return 1 << 20

    def started_s(self) -> float:
        return 0.0

    def boot_id(self) -> str:
        return self._boot_id


def runtime_of(
    process: ProcessLoop, disk: NodeDisk | None, slowness: Callable[[], float], boot_id: str = ""
) -> Runtime:
    """The edge of one process. A client has no disk."""
    parts: dict[str, Any] = {} if disk is None else {"disk": disk, "workers": SimulatedWorkers(disk)}
    return Runtime(
        clock=SimulatedClock(process),
        random=SimulatedRandomness(process.world.dice.getrandbits(64)),
        threads=SimulatedThreads(process, slowness),
        network=SimulatedNetwork(process, disk),
        process=SimulatedProcess(boot_id),
        stores=process.world.store,
        **parts,
    )
