"""A local cluster as DIR/cluster.json knows it: which brokers, where, under which settings, in which process.

Rules
- Whoever holds the lock DIR/cluster.lock may write; the supervisor holds it for as long as it lives, so a lock that can
  be had means that no supervisor runs. What is left of one that was killed is in the file: the processes of its brokers.
- The file is replaced as a whole, so that a reader never sees half of it. It is for its owner only: it holds the token
  that opens the supervisor's door.
- A process is known by its number and the moment it began: numbers are used again.
- The voters are fixed when the cluster is founded. Later brokers hold topics and do not vote.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Final

FILE: Final = "cluster.json"
LOCK: Final = "cluster.lock"
_FORMAT: Final = 1
_PS_SECONDS: Final = 5


class ClusterError(Exception):
    """What was asked for cannot be done with this cluster; the message is a sentence for a person."""


class Condition(StrEnum):
    """What a broker's process is doing, as far as its supervisor knows."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    KILLED = "killed"
    DIED = "died"  # by itself

    @property
    def has_process(self) -> bool:
        return self in (Condition.STARTING, Condition.RUNNING, Condition.PAUSED)

    @property
    def is_at_work(self) -> bool:
        return self in (Condition.STARTING, Condition.RUNNING)


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One broker. Others reach it at `advertised_port`: its own port, or the proxy's."""

    node_id: int
    port: int
    advertised_port: int
    rack: str | None = None
    condition: Condition = Condition.STOPPED
    pid: int | None = None
    process_started: str | None = None
    exit_status: int | None = None


@dataclass(frozen=True, slots=True)
class SupervisorState:
    """The process that looks after the brokers, and the door at which it takes commands."""

    pid: int
    control_port: int
    token: str


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Everything that `up` decided and what has become of it."""

    cluster_id: str
    host: str
    voters: tuple[int, ...]
    brokers: tuple[BrokerState, ...]
    settings: dict[str, str] = field(default_factory=dict)
    has_proxy: bool = False
    supervisor: SupervisorState | None = None

    def broker(self, node_id: int) -> BrokerState:
        for each in self.brokers:
            if each.node_id == node_id:
                return each
        known = ", ".join(str(each.node_id) for each in self.brokers)
        raise ClusterError(f"This cluster has no broker {node_id}: it has {known}.")

    def with_broker(self, broker: BrokerState) -> ClusterState:
        """With one broker changed, or with one more."""
        others = [each for each in self.brokers if each.node_id != broker.node_id]
        return replace(self, brokers=tuple(sorted([*others, broker], key=lambda each: each.node_id)))

    def without_broker(self, node_id: int) -> ClusterState:
        return replace(self, brokers=tuple(each for each in self.brokers if each.node_id != node_id))

    @property
    def bootstrap(self) -> str:
        """Where clients begin: every broker, so that it does not matter which of them live."""
        return ",".join(f"{self.host}:{each.advertised_port}" for each in self.brokers)

    @property
    def missing_voters(self) -> list[int]:
        """The voters that cannot vote now."""
        return [each for each in self.voters if not self.broker(each).condition.is_at_work]

    @property
    def has_quorum(self) -> bool:
        return len(self.voters) - len(self.missing_voters) > len(self.voters) // 2


def quorum_sentence(state: ClusterState, data: Path) -> str | None:
    """Why nothing can be decided, and what to do; None while a majority of the voters is at work."""
    if state.has_quorum:
        return None
    missing, needed = state.missing_voters, len(state.voters) // 2 + 1
    first = state.broker(missing[0])
    verb = "resume" if first.condition == Condition.PAUSED else "start"
    who = f"voter{'s' if len(missing) > 1 else ''} {numbers(missing)} {'are' if len(missing) > 1 else 'is'}"
    return (
        f"The quorum is lost: {who} not at work, and {needed} of {len(state.voters)} must be. Until then no leader is "
        f"elected and no metadata changes. Bring one back with: ottla cluster {verb} {first.node_id} --data {data}"
    )


def numbers(ids: Sequence[int]) -> str:
    """Node ids as a person reads them: 1, 2 and 3."""
    texts = [str(each) for each in ids]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}" if texts else "none"


def read_state(data: Path) -> ClusterState | None:
    """What the file says; None if there is none."""
    try:
        found = json.loads((data / FILE).read_text(encoding="utf-8"))
        return _from_json(found)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(
            f"{data / FILE} cannot be read: {error}. If nothing of it is needed, remove {data}."
        ) from error


def write_state(data: Path, state: ClusterState) -> None:
    """Replace the file as a whole."""
    new = data / f"{FILE}.new"
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump({"format": _FORMAT, **asdict(state)}, file, indent=2)
        file.write("\n")
    new.replace(data / FILE)


def lock(data: Path) -> IO[str] | None:
    """The right to write, held until the file is closed or the process ends; None if another has it."""
    data.mkdir(parents=True, exist_ok=True)
    file = (data / LOCK).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def process_started(pid: int) -> str | None:
    """When a living process began, in the system's own words; None if there is none. A zombie is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None if Path("/proc/self").exists() else _ps_started(pid)
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def is_alive(broker: BrokerState) -> bool:
    """Whether the very process that the file names is there."""
    return broker.pid is not None and process_started(broker.pid) == broker.process_started


def _ps_started(pid: int) -> str | None:
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PS_SECONDS, check=False)
    return done.stdout.strip() or None


def _from_json(found: Any) -> ClusterState:
    if not isinstance(found, dict) or found.pop("format") != _FORMAT:
        raise ValueError("another version of ottla wrote it")
    brokers = [{**each, "condition": Condition(each["condition"])} for each in found.pop("brokers")]
    supervisor = found.pop("supervisor")
    return ClusterState(
        voters=tuple(found.pop("voters")),
        brokers=tuple(BrokerState(**each) for each in brokers),
        supervisor=None if supervisor is None else SupervisorState(**supervisor),
        **found,
    )
