"""The edge of one node or client as one object."""

from dataclasses import dataclass, field

from ottla.runtime.clock import Clock, OsClock
from ottla.runtime.disk import Disk, OsDisk
from ottla.runtime.network import Network, OsNetwork
from ottla.runtime.process import OsProcess, Process
from ottla.runtime.randomness import OsRandomness, Randomness
from ottla.runtime.stores import ObstoreStores, Stores
from ottla.runtime.threads import OsThreads, Threads
from ottla.runtime.workers import OsWorkers, Workers


@dataclass(frozen=True, slots=True)
class Runtime:
    """Each part is the operating system's unless another one is given."""

    clock: Clock = field(default_factory=OsClock)
    random: Randomness = field(default_factory=OsRandomness)
    threads: Threads = field(default_factory=OsThreads)
    network: Network = field(default_factory=OsNetwork)
    disk: Disk = field(default_factory=OsDisk)
    process: Process = field(default_factory=OsProcess)
    workers: Workers = field(default_factory=OsWorkers)
    stores: Stores = field(default_factory=ObstoreStores)
