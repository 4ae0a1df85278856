"""A cluster whose brokers have networks and disks of their own, with the commands of a local cluster."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from tests.chaos.machines.commands import check_system
from tests.chaos.machines.disks import LoopDisk
from tests.chaos.machines.network import CLIENTS, Network, address
from tests.clusters import ObservedCluster
from tests.integration.peer import Peer

from ottla.localcluster.broker_process import clean_environment
from ottla.localcluster.cluster import ProcessOutcome
from ottla.localcluster.plan.cluster import broker_directory, broker_output, replication_settings
from ottla.localcluster.state import BrokerState, ClusterError, ClusterState, Condition
from ottla.localcluster.waiting import wait_until

_PORT: Final = 9092
_READY: Final = " is ready at "
_START_DEADLINE_S: Final = 60.0
_STOP_DEADLINE_S: Final = 30.0
_RESET_S: Final = 0.5


class MachineCluster(ObservedCluster):
    """Brokers in namespaces. The cluster is driven by this process, without a supervisor."""

    def __init__(self, data: Path, brokers: int, settings: Mapping[str, str]) -> None:
        super().__init__(data)
        self.network = Network()
        ids = range(1, brokers + 1)
        self.disks = {each: LoopDisk(data / f"disk-{each}.img", broker_directory(data, each)) for each in ids}
        self._settings = {**replication_settings(brokers), **settings}
        self._conditions = dict.fromkeys(ids, Condition.STOPPED)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @contextlib.contextmanager
    def running_machines(self) -> Iterator[None]:
        """Networks and disks for the length of a block, and no process after it."""
        self.data.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            for disk in self.disks.values():
                stack.enter_context(disk.mounted())
            stack.enter_context(self.network.running(list(self.disks)))
            stack.callback(self._end_all)
            yield

    # ---- what a local cluster knows of itself

    @property
    def state(self) -> ClusterState:
        for node_id, process in self._processes.items():
            if self._conditions[node_id].has_process and process.poll() is not None:
                self._conditions[node_id] = Condition.DIED
        brokers = tuple(BrokerState(each, _PORT, _PORT, None, self._conditions[each]) for each in self.disks)
        return ClusterState("machines", address(1), tuple(self.disks), brokers)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{address(each)}:{_PORT}" for each in self.disks)

    def pid_of(self, node_id: int) -> int:
        if not self._conditions[node_id].has_process:
            raise ClusterError(f"Broker {node_id} has no process: it is {self._conditions[node_id]}.")
        return self._processes[node_id].pid

    def said(self) -> str:
        return f"faults in force: {self.network.faults}"

    @contextlib.contextmanager
    def peer(self, node_id: int) -> Iterator[Peer]:
        with Peer(_PORT, host=address(node_id)) as connected:
            yield connected

    # ---- processes

    def start_broker(self, node_id: int, *, wait: bool = True) -> int:
        output = broker_output(self.data, node_id)
        with output.open("ab") as sink:
            begin = sink.seek(0, 2)
            self._processes[node_id] = self._spawn(node_id, sink)
        self._conditions[node_id] = Condition.RUNNING
        if wait:
            self._await_ready(node_id, output, begin)
        return self._processes[node_id].pid

    def _spawn(self, node_id: int, sink: IO[bytes]) -> subprocess.Popen[bytes]:
        """The broker ends with this process, however this process ends."""
        command = ["ip", "netns", "exec", self.network.namespace(node_id), "setpriv", "--pdeathsig", "KILL"]
        command += [sys.executable, "-m", "ottla.cli.main", "serve"]
        for name, value in self._settings_of(node_id).items():
            command += ["--set", f"{name}={value}"]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=clean_environment(),
            start_new_session=True,
        )

    def _settings_of(self, node_id: int) -> dict[str, str]:
        listener = f"PLAINTEXT://{address(node_id)}:{_PORT}"
        return {
            **self._settings,
            "node.id": str(node_id),
            "process.roles": "broker,controller",
            "listeners": listener,
            "advertised.listeners": listener,
            "controller.quorum.voters": ",".join(f"{each}@{address(each)}:{_PORT}" for each in self.disks),
            "ottla.cluster.id": "machines",
            "log.dirs": str(self.directory_of(node_id)),
        }

    def _await_ready(self, node_id: int, output: Path, begin: int) -> None:
        def is_ready() -> bool:
            if self._processes[node_id].poll() is not None:
                raise ClusterError(f"Broker {node_id} ended: {output.read_bytes()[begin:][-2000:].decode()}")
            return _READY in output.read_bytes()[begin:].decode(errors="replace")

        wait_until(is_ready, f"broker {node_id} is ready", _START_DEADLINE_S)

    def stop_broker(self, node_id: int) -> ProcessOutcome:
        return self._end(node_id, signal.SIGTERM, Condition.STOPPED)

    def kill(self, node_id: int) -> ProcessOutcome:
        return self._end(node_id, signal.SIGKILL, Condition.KILLED)

    def _end(self, node_id: int, how: signal.Signals, becomes: Condition) -> ProcessOutcome:
        process = self._processes[node_id]
        process.send_signal(how)
        has_stopped = True
        try:
            process.wait(_STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            has_stopped = False
        self._conditions[node_id] = becomes
        return ProcessOutcome(process.pid, has_stopped=has_stopped)

    def pause(self, node_id: int) -> ProcessOutcome:
        return self._signal(node_id, signal.SIGSTOP, Condition.PAUSED)

    def resume(self, node_id: int) -> ProcessOutcome:
        return self._signal(node_id, signal.SIGCONT, Condition.RUNNING)

    def _signal(self, node_id: int, number: signal.Signals, becomes: Condition) -> ProcessOutcome:
        self._processes[node_id].send_signal(number)
        self._conditions[node_id] = becomes
        return ProcessOutcome(self.pid_of(node_id))

    def stop_all(self) -> None:
        """Stop every broker as its operator would; the machines stay."""
        for node_id in self.running:
            self._processes[node_id].send_signal(signal.SIGTERM)
        for node_id in self.running:
            self.stop_broker(node_id)

    def _end_all(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    # ---- the network

    def cut(
        self, node_id: int, other: int | None = None, *, one_way: bool = False, clients: bool = False
    ) -> list[str]:
        others = [other] if other is not None else [each for each in self.disks if each != node_id]
        for each in [*others, *([CLIENTS] if clients else [])]:
            self.network.drop(node_id, each)
            if not one_way:
                self.network.drop(each, node_id)
        return self.network.faults

    def lose_packets(self, node_id: int, percent: int) -> None:
        self.network.lose(node_id, percent)

    def reset(self, node_id: int, other: int | None = None) -> int:
        """End the broker's connections that are used within half a second; how many is not known here."""
        assert other is None
        self.network.reset(node_id)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._processes[node_id].wait(_RESET_S)
        self.network.heal(node_id)
        return 0

    def heal(self, node_id: int | None = None) -> list[str]:
        self.network.heal(node_id)
        return self.network.faults


@contextlib.contextmanager
def machine_cluster(data: Path, brokers: int, settings: Mapping[str, str]) -> Iterator[MachineCluster]:
    """A cluster on machines of its own for the length of a block; NoMachinesError where that is not possible."""
    check_system()
    cluster = MachineCluster(data, brokers, settings)
    with cluster.running_machines():
        for node_id in cluster.ids:
            cluster.start_broker(node_id, wait=False)
        wait_until(lambda: cluster.controller() >= 0, "the cluster has a controller", _START_DEADLINE_S)
        yield cluster
