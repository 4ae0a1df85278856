"""DIR/cluster.json and DIR/cluster.lock: how a cluster's state is kept between processes.

Rules
- Only the holder of the lock writes. The supervisor holds the lock as long as it lives, so a lock that can be
  taken means that no supervisor runs. If the supervisor was killed, the file still names the processes of its
  brokers.
- The file is replaced as a whole: a reader never sees half of it. Only its owner can read it, because it
  holds the token that the supervisor asks for.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

from ottla.localcluster.state import BrokerState, ClusterError, ClusterState, Condition, SupervisorState

FILE: Final = "cluster.json"
LOCK: Final = "cluster.lock"
_FORMAT: Final = 1


def read_state(data: Path) -> ClusterState | None:
    """The state in the file; None if there is no file."""
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
    """Take the lock until the returned file is closed or the process ends; None if another process has it."""
    data.mkdir(parents=True, exist_ok=True)
    file = (data / LOCK).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


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
