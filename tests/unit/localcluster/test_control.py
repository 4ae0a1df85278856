from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.localcluster.control import (
    ControlServer,
    NotRunningError,
    ask_supervisor,
    is_supervised,
    running_state,
)
from ottla.localcluster.ports import HOST
from ottla.localcluster.state import BrokerState, ClusterError, ClusterState, SupervisorState
from ottla.localcluster.state_file import lock, write_state

STATE = ClusterState("c", HOST, (1,), (BrokerState(1, 9092, 9092),))
Handle = Callable[[str, dict[str, Any]], Awaitable[Any]]


async def echo(command: str, arguments: dict[str, Any]) -> Any:
    return {"command": command, **arguments}


async def refuse(command: str, arguments: dict[str, Any]) -> Any:
    raise ClusterError(f"{command} cannot be done.")


def asked(data: Path, handle: Handle, command: str, **arguments: Any) -> Any:
    """The answer of a supervisor that handles commands so."""

    async def session() -> Any:
        server = ControlServer(handle)
        write_state(data, replace(STATE, supervisor=await server.start(os.getpid())))
        try:
            return await asyncio.to_thread(ask_supervisor, data, command, **arguments)
        finally:
            await server.stop()

    held = lock(data)
    assert held is not None
    with held:
        return asyncio.run(session())


def test_a_command_and_its_arguments_arrive_and_are_answered(tmp_path: Path) -> None:
    assert asked(tmp_path, echo, "kill", broker=2) == {"command": "kill", "broker": 2}


def test_a_refusal_is_the_supervisors_sentence(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"kill cannot be done\."):
        asked(tmp_path, refuse, "kill", broker=2)


def test_a_wrong_token_is_refused() -> None:
    async def session() -> Any:
        server = ControlServer(echo)
        supervisor = await server.start(os.getpid())
        reader, writer = await asyncio.open_connection(HOST, supervisor.control_port)
        writer.write(json.dumps({"token": "guessed", "command": "down"}).encode() + b"\n")
        answer = json.loads(await reader.readline())
        writer.close()
        await server.stop()
        return answer

    assert asyncio.run(session()) == {"error": "the token is wrong"}


def test_a_directory_without_a_cluster_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotRunningError, match=r"There is no cluster in .*ottla cluster up"):
        running_state(tmp_path)


def test_a_state_without_a_lock_is_what_a_killed_supervisor_left(tmp_path: Path) -> None:
    write_state(tmp_path, replace(STATE, supervisor=SupervisorState(1, 1, "t")))
    assert not is_supervised(tmp_path)
    with pytest.raises(NotRunningError, match="is not running"):
        running_state(tmp_path)


def test_a_supervisor_that_does_not_listen_went_away(tmp_path: Path) -> None:
    write_state(tmp_path, replace(STATE, supervisor=SupervisorState(1, 1, "t")))
    held = lock(tmp_path)
    assert held is not None
    with held, pytest.raises(NotRunningError, match="went away"):
        ask_supervisor(tmp_path, "state")
