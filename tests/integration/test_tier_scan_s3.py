"""Ranges read by executors from a real S3 server, with what goes wrong on the way to it (PIPE-9)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, create_topic
from tests.integration.s3_place import S3Place, s3_place
from tests.integration.test_tier_scan import expected, loads, rows
from tests.integration.test_tiers import COUNT, SETTINGS, TIERED, fill

from ottla.errors import KafkaError
from ottla.localcluster.waiting import wait_until


@pytest.fixture(scope="module")
def place() -> Iterator[S3Place]:
    with s3_place() as found:
        yield found


@pytest.fixture(scope="module")
def tiering(tmp_path_factory: pytest.TempPathFactory, place: S3Place) -> Iterator[BrokerThread]:
    """A broker with one topic, "cold", whose older part is in S3 only."""
    settings = {**SETTINGS, "ottla.remote.store.url": place.url}
    with broker_thread(tmp_path_factory.mktemp("tiering") / "data", settings) as broker:
        with Peer(broker.port) as peer:
            create_topic(peer, "cold", **TIERED)
            fill(peer, "cold")
        log, tier = broker.log("cold"), broker.partition("cold").tier
        assert tier is not None
        wait_until(lambda: log.log_start_offset > COUNT // 2, "local segments are deleted", 60)
        active = log.extent.segments.active.base_offset
        wait_until(lambda: tier.remote.next_offset == active, "all closed segments are copied", 60)
        yield broker


@pytest.fixture(autouse=True)
def _whole_again(place: S3Place) -> Iterator[None]:
    yield
    place.fault = lambda method, path: ""


def is_batches(method: str, path: str) -> bool:
    return method == "GET" and path.endswith(".log")


def test_the_cold_part_comes_from_s3_and_the_rest_from_the_broker(
    tiering: BrokerThread, place: S3Place
) -> None:
    place.requests.clear()
    before = loads(tiering)
    assert rows(tiering, "cold", 7, COUNT) == expected(7, COUNT)
    assert loads(tiering) == before
    assert any(is_batches(*each) for each in place.requests)
    assert not any(method in ("PUT", "POST", "DELETE") for method, _ in place.requests)


@pytest.mark.parametrize("fault", ["503", "cut", "torn", "wrong"])
def test_what_goes_wrong_once_is_not_noticed(tiering: BrokerThread, place: S3Place, fault: str) -> None:
    broken: list[str] = []

    def break_one(method: str, path: str) -> str:
        if not is_batches(method, path) or path in broken:
            return ""
        broken.append(path)
        return fault

    place.fault = break_one
    assert rows(tiering, "cold", 0, COUNT) == expected(0, COUNT)
    assert len(broken) > 2


def test_a_store_that_refuses_is_an_error_at_once_with_its_reason_and_without_secrets(
    tiering: BrokerThread, place: S3Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.fault = lambda method, path: "403" if is_batches(method, path) else ""
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(KafkaError, match=f"in {place.url}.*lacked the necessary privileges") as raised,
    ):
        rows(tiering, "cold", 0, COUNT, client={"default.api.timeout.ms": "3600000"})
    assert "never-logged" not in caplog.text + str(raised.value)


def test_a_store_that_fails_for_long_is_an_error(tiering: BrokerThread, place: S3Place) -> None:
    place.fault = lambda method, path: "wrong" if is_batches(method, path) else ""
    with pytest.raises(KafkaError, match="is not what was written"):
        rows(tiering, "cold", 0, COUNT, client={"default.api.timeout.ms": "300"})


def test_a_missing_package_is_named(tiering: BrokerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ottla.runtime.obstore_store", None)
    with pytest.raises(KafkaError, match=r"pip install 'ottla\[tiers\]'"):
        rows(tiering, "cold", 0, COUNT)
