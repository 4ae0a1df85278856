"""Brokers that live for a whole test session, and the choice between ours and the control.

Every test that asks for `broker` runs against Ottla; under `make compat` it runs a second time against Apache
Kafka, so that a test that asks for what Kafka itself does not do is found out. Both are slow to start and
cheap to share: tests keep apart by the names of their topics.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest
from bench.apache.kafka import start_apache_kafka
from bench.apache.maven import CannotFetchError
from hypothesis import settings
from tests import patient_loop
from tests.scheduling import Piles, begins
from xdist.remote import Producer

from ottla.localcluster import ports
from ottla.localcluster.broker_process import BrokerProcess, running, start_broker

# Hypothesis would fail a test for an example that takes 200 ms: on a busy machine any of them may. The
# examples are the same in every run, so that a change is judged by what it changed;
# `--hypothesis-profile=explore` draws new ones.
settings.register_profile("ottla", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("ottla")


# Five processes find room below the kernel's own ports. No call asks for more ports than lie between two starts.
_PORTS_PER_PROCESS: Final = 4_500
_PORTS_PER_CALL: Final = 16


def _keep_to_own_ports() -> None:
    """Processes of one run take ports from different ranges, and a process none that it took a moment ago: a broker
    that is killed, and comes back, found that its port was taken.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker.startswith("gw"):
        first = vars(ports)["_WELL_KNOWN"] + int(worker[2:]) * _PORTS_PER_PROCESS
        starts = count(0, _PORTS_PER_CALL)
        vars(ports)["_WELL_KNOWN"] = first
        vars(ports)["_first_ephemeral_port"] = lambda: first + _PORTS_PER_PROCESS
        vars(ports)["random"] = SimpleNamespace(randrange=lambda end: next(starts) % end)


def pytest_configure() -> None:
    """A shell starts what it puts in the background deaf to Ctrl-C, and programs inherit that: here some are
    stopped by it. Loops do not count the time for which a busy machine did not run them.
    """
    patient_loop.install()
    _keep_to_own_ports()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first."""
    items.sort(key=lambda item: begins(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Piles:
    return Piles(config, log)


TARGETS = ["ottla", pytest.param("apache", marks=pytest.mark.compat)]


def start(
    target: str, data: Path, properties: dict[str, str] | None = None, *, port: int = 0
) -> BrokerProcess:
    """A broker of the target's kind; skips the test, with the reason, where the control cannot be fetched."""
    if target == "ottla":
        return start_broker(data, properties, port=port)
    try:
        return start_apache_kafka(data, properties, port=port)
    except CannotFetchError as reason:
        pytest.skip(f"NO APACHE KAFKA TO COMPARE WITH: {reason}")


@pytest.fixture(scope="session", params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker under test, with its settings as they come."""
    with running(start(target, tmp_path_factory.mktemp(target) / "data")) as process:
        yield process
