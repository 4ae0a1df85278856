"""`ottla cluster up --gateway`: the console of a local cluster starts, stops and kills its brokers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.integration.console_caller import ConsoleCaller, parses
from tests.integration.gateway_place import GatewayPlace

from ottla.localcluster.cluster import LocalCluster
from ottla.localcluster.waiting import wait_until

OTTLA = [sys.executable, "-m", "ottla.cli.main"]


def ottla(*words: str) -> str:
    done = subprocess.run([*OTTLA, *words], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def caller(port: int) -> ConsoleCaller:
    """Calls a gateway that is another process."""
    place = SimpleNamespace(port=port)
    place.call = GatewayPlace.call.__get__(place)
    return ConsoleCaller(cast(GatewayPlace, place))


def is_there(console: ConsoleCaller) -> bool:
    try:
        return console.ask("GET", "/session").status == 200
    except OSError:
        return False


def test_the_console_of_a_local_cluster_stops_and_starts_its_brokers(tmp_path: Path) -> None:
    data = tmp_path / "cluster"
    up = ("cluster", "up", "--data", str(data), "--brokers", "1", "--port", "0", "--memory", "--detach")
    said = ottla(*up, "--gateway", "127.0.0.1:0", "--console-writes")
    try:
        found = re.search(r"The console is at http://127.0.0.1:(\d+)/console", said)
        assert found is not None, said
        console = caller(int(found[1]))
        shown = console.get("/brokers")
        assert shown["is_local"] is True
        assert [(each["id"], each["condition"]) for each in shown["brokers"]] == [(1, "running")]
        plan = console.preview("broker", verb="pause", broker=1)
        assert plan["what"] == "Lets broker 1 stand still, as if its machine hung."
        parses(plan["command"])
        assert console.act("broker", verb="pause", broker=7).status == 404
        assert console.act("broker", verb="dance", broker=1).status == 422
        assert console.act("broker", verb="pause", broker=1).json["done"].startswith("Broker 1 stands still.")
        assert LocalCluster(data).running_state.broker(1).condition == "paused"
        assert console.act("broker", verb="resume", broker=1).json["done"].startswith("Broker 1 goes on.")
        restarted = console.act("broker", verb="restart", broker=1)
        assert restarted.status == 200, restarted.body
    finally:
        ottla("cluster", "down", "--data", str(data))
    wait_until(lambda: not is_there(console), "the gateway ends with its cluster")


@pytest.mark.parametrize("command", ["cluster up --data x", "serve --data x"])
def test_a_console_that_writes_needs_a_gateway(command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*OTTLA, *command.split(), "--console-writes"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 2
    assert "add --gateway" in done.stderr
