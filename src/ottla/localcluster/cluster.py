"""The cluster of one directory: its state, and commands to its supervisor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ottla.config import ConfigError
from ottla.localcluster.control import NotRunningError, ask_supervisor, no_cluster, running_state
from ottla.localcluster.orphans import end_orphans, orphans
from ottla.localcluster.plan.cluster import broker_directory, broker_output, supervisor_output
from ottla.localcluster.security_files import SecurityFiles
from ottla.localcluster.state import ClusterError, ClusterState, Condition
from ottla.localcluster.state_file import read_state
from ottla.security.settings import PLAINTEXT, Security


@dataclass(frozen=True, slots=True)
class ProcessOutcome:
    """A command that was carried out on a broker's process.

    `quorum` is a sentence if a majority of the voters is missing now; `has_stopped` is False for a broker
    that did not stop in time and was killed.
    """

    pid: int
    quorum: str | None = None
    has_stopped: bool = True


@dataclass(frozen=True, slots=True)
class AddedBroker:
    """A broker that joined a running cluster."""

    node_id: int
    pid: int


class LocalCluster:
    """A cluster by its directory; any process of the directory's owner may command it.

    Commands raise ClusterError with the supervisor's sentence, and NotRunningError if no supervisor runs.
    """

    def __init__(self, data: Path) -> None:
        self.data = data

    @property
    def state(self) -> ClusterState:
        """The state in DIR/cluster.json, whether the cluster runs or not."""
        state = read_state(self.data)
        if state is None:
            raise no_cluster(self.data)
        return state

    @property
    def running_state(self) -> ClusterState:
        """The state of a cluster whose supervisor runs; NotRunningError otherwise."""
        return running_state(self.data)

    @property
    def ids(self) -> list[int]:
        return [each.node_id for each in self.state.brokers]

    @property
    def running(self) -> list[int]:
        """The brokers that serve."""
        return [each.node_id for each in self.state.brokers if each.condition == Condition.RUNNING]

    @property
    def bootstrap(self) -> str:
        return self.state.bootstrap

    @property
    def security(self) -> Security:
        """How clients reach the cluster: as its administrator, if it is secured."""
        if not self.state.is_secure:
            return PLAINTEXT
        try:
            return SecurityFiles(self.data).security
        except ConfigError as error:
            raise ClusterError(str(error)) from error

    def port_of(self, node_id: int) -> int:
        """The port at which clients reach a broker."""
        return self.state.broker(node_id).advertised_port

    def pid_of(self, node_id: int) -> int:
        """The process of a broker; ClusterError if it has none."""
        broker = self.state.broker(node_id)
        if broker.pid is None:
            raise ClusterError(f"Broker {node_id} has no process: it is {broker.condition}.")
        return broker.pid

    def directory_of(self, node_id: int) -> Path:
        """The data directory of a broker."""
        return broker_directory(self.data, node_id)

    def said(self) -> str:
        """The output of a supervisor that runs in a process of its own."""
        return supervisor_output(self.data).read_text(errors="replace")

    def broker_said(self, node_id: int) -> str:
        """The output of a broker, of all its runs."""
        return broker_output(self.data, node_id).read_text(errors="replace")

    # ---- processes

    def start_broker(self, node_id: int, *, wait: bool = True) -> int:
        """Start a broker that has no process, and wait until it serves; returns the process number."""
        answer = ask_supervisor(self.data, "start", broker=node_id, wait=wait)
        if answer["problem"]:
            raise ClusterError(answer["problem"])
        return int(answer["pid"])

    def stop_broker(self, node_id: int) -> ProcessOutcome:
        """Stop a broker as its operator would (SIGTERM)."""
        return ProcessOutcome(**ask_supervisor(self.data, "stop", broker=node_id))

    def kill(self, node_id: int) -> ProcessOutcome:
        """End a broker as a crash would (SIGKILL)."""
        return ProcessOutcome(**ask_supervisor(self.data, "kill", broker=node_id))

    def pause(self, node_id: int) -> ProcessOutcome:
        """Suspend a broker's process (SIGSTOP)."""
        return ProcessOutcome(**ask_supervisor(self.data, "pause", broker=node_id))

    def resume(self, node_id: int) -> ProcessOutcome:
        """Let a paused broker continue (SIGCONT)."""
        return ProcessOutcome(**ask_supervisor(self.data, "resume", broker=node_id))

    def add_broker(self, rack: str | None = None) -> AddedBroker:
        """Add a broker and wait until it serves. It holds topics and does not vote."""
        answer = ask_supervisor(self.data, "add", rack=rack)
        if answer["problem"]:
            raise ClusterError(answer["problem"])
        return AddedBroker(answer["broker"], answer["pid"])

    def remove_broker(self, node_id: int) -> None:
        """Take a stopped broker that does not vote out of the cluster."""
        ask_supervisor(self.data, "remove", broker=node_id)

    def down(self) -> list[int]:
        """Stop the whole cluster; returns the brokers that a killed supervisor had left, if any."""
        try:
            ask_supervisor(self.data, "down")
        except NotRunningError:
            state = read_state(self.data)
            left = orphans(state) if state else []
            if state is None or not left:
                raise
            end_orphans(self.data, state)
            return left
        return []

    # ---- the network: each command returns the faults that are in force after it, as lines for people

    def cuts(self) -> list[str]:
        """The faults of the network that are in force."""
        return list(ask_supervisor(self.data, "state")["cuts"])

    def cut(
        self, node_id: int, other: int | None = None, *, one_way: bool = False, clients: bool = False
    ) -> list[str]:
        """Cut a broker off from one other, or from all; one-way, it still receives and is not heard."""
        answer = ask_supervisor(
            self.data, "cut", broker=node_id, other=other, one_way=one_way, clients=clients
        )
        return list(answer["cuts"])

    def slow(self, node_id: int, delay_ms: float, other: int | None = None) -> list[str]:
        """Delay everything between a broker and one other, or all others and clients."""
        answer = ask_supervisor(self.data, "slow", broker=node_id, other=other, ms=delay_ms)
        return list(answer["cuts"])

    def reset(self, node_id: int, other: int | None = None) -> int:
        """End a broker's connections as a restarted router would; returns how many there were."""
        return int(ask_supervisor(self.data, "reset", broker=node_id, other=other)["ended"])

    def heal(self, node_id: int | None = None) -> list[str]:
        """Lift all faults of the network, or those of one broker."""
        return list(ask_supervisor(self.data, "heal", broker=node_id)["cuts"])
