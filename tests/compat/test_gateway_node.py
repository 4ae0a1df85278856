"""The gateway from JavaScript: the consumers of the source document, and our own client: GTW-1, GTW-2."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.gateway_place import GatewayPlace, gateway_place

import ottla.gateway.websocket
import ottla.testing
from ottla.testing.embedded_broker import EmbeddedBroker

pytestmark = pytest.mark.compat
PROGRAMS = Path(__file__).parent / "gateway"
CLIENT = Path(ottla.gateway.websocket.__file__).parent / "client.js"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker() as started:
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(broker.bootstrap, listen="localhost:0") as place:
        yield place


def run(program: str, *arguments: str) -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("NO NODE: the gateway is not called from JavaScript")
    command = [node, "--experimental-websocket", "--no-warnings", str(PROGRAMS / program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_the_consumers_of_the_source_document_work(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("user-events")
    seen = json.loads(run("source_document.mjs", str(gateway.port), topic))
    drinks = [{"drink": each} for each in ("coffee", "tea", "water")]
    assert seen == {"poll": drinks, "socket": drinks}


def test_our_own_client_goes_on_after_its_connection_broke(
    gateway: GatewayPlace, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = broker.create_topic("own-client")
    module = tmp_path / "client.mjs"
    module.write_text(CLIENT.read_text(encoding="utf-8"), encoding="utf-8")
    seen = json.loads(run("own_client.mjs", str(module), str(gateway.port), topic))
    offsets = [offset for offset, _ in seen]
    # The record whose processing closed the connection was done: nothing comes twice, nothing is missing.
    assert offsets == [0, 1, 2, 3]
    assert [number for _, number in seen] == [0, 1, 2, 3]
