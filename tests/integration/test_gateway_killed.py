"""A gateway that is killed or cut off under load: no record that it acknowledged is lost, and its group goes on.

Requirements: GTW-1.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from itertools import count
from threading import Event, Thread
from typing import Any

from tests.integration.gateway_place import DEADLINE_S, JSON_V2, GatewayPlace, gateway_place

import ottla.blocking
import ottla.testing
from ottla.localcluster.waiting import wait_until

WRITERS = 4
BEFORE_THE_KILL = 100


@contextmanager
def gateway_process(bootstrap: str) -> Iterator[tuple[subprocess.Popen[str], GatewayPlace]]:
    command = [sys.executable, "-m", "ottla.cli.main", "gateway", "--bootstrap", bootstrap, "-q"]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"is ready at http://127.0.0.1:(\d+) ", process.stdout.readline())
            assert found is not None
            place = GatewayPlace.__new__(GatewayPlace)
            place.port = int(found[1])
            yield process, place
        finally:
            process.kill()


def write(place: GatewayPlace, topic: str, writer: int, acknowledged: list[tuple[int, str]]) -> None:
    """Records on one connection, until the gateway is gone; each answer counts."""
    connection = HTTPConnection("127.0.0.1", place.port, timeout=DEADLINE_S)
    try:
        for number in range(1_000_000):
            value = f"{writer}-{number}"
            body = json.dumps({"records": [{"value": value}]})
            connection.request("POST", f"/topics/{topic}", body, {"Content-Type": JSON_V2})
            (outcome,) = json.loads(connection.getresponse().read())["offsets"]
            assert outcome["error"] is None
            acknowledged.append((outcome["offset"], value))
    except (OSError, HTTPException, ValueError):
        return  # the gateway was killed
    finally:
        connection.close()


def read_some(place: GatewayPlace, path: str) -> list[dict[str, Any]]:
    """The first records that an instance gets; it joins its group while it asks."""
    found: list[dict[str, Any]] = []

    def asked() -> bool:
        reply = place.call("GET", f"{path}/records?timeout=1000&max_bytes=2000")
        found.extend(reply.json if reply.status == 200 else ())
        return bool(found)

    wait_until(asked, "records are read")
    return found


def test_nothing_acknowledged_is_lost_and_the_group_goes_on_elsewhere() -> None:
    with ottla.testing.broker(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        topic = broker.create_topic("killed")
        with (
            gateway_process(broker.bootstrap) as (process, first),
            gateway_process(broker.bootstrap) as (_, second),
        ):
            acknowledged: list[tuple[int, str]] = []
            writers = [
                Thread(target=write, args=(first, topic, each, acknowledged)) for each in range(WRITERS)
            ]
            path = first.instance("readers", "one", **{"auto.commit.enable": False})
            first.call("POST", f"{path}/subscription", {"topics": [topic]})
            for each in writers:
                each.start()
            done = read_some(first, path)
            assert first.call("POST", f"{path}/offsets").status == 204
            committed = done[-1]["offset"] + 1
            wait_until(lambda: len(acknowledged) > BEFORE_THE_KILL, "records are acknowledged")
            process.kill()
            for each in writers:
                each.join()
            kept = {each.offset: json.loads(each.value or b"") for each in broker.records(topic)}
            assert all(kept.get(offset) == value for offset, value in acknowledged)
            assert len({value for _, value in acknowledged}) == len(acknowledged)
            # The group would wait for the dead member for its session timeout, 45 s, as with any client.
            with ottla.blocking.Admin(broker.bootstrap) as admin:
                admin.remove_members("readers")
            path = second.instance("readers", "two", **{"auto.commit.enable": False})
            second.call("POST", f"{path}/subscription", {"topics": [topic]})
            assert read_some(second, path)[0]["offset"] == committed


def write_until(
    place: GatewayPlace, topic: str, writer: int, acknowledged: list[tuple[int, str]], is_over: Event
) -> None:
    """Each record once, whatever the answer; those without an error count."""
    for number in count():
        if is_over.is_set():
            return
        value = f"{writer}-{number}"
        reply = place.call("POST", f"/topics/{topic}", {"records": [{"value": value}]})
        assert reply.status in (200, 503), reply.body
        if reply.status == 200 and reply.json["offsets"][0]["error"] is None:
            acknowledged.append((reply.json["offsets"][0]["offset"], value))


def test_a_gateway_that_is_cut_off_from_the_cluster_goes_on_without_loss() -> None:
    with ottla.testing.broker(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        topic = broker.create_topic("cut")
        with gateway_place(broker.bootstrap, cluster_timeout_ms=500) as place:
            acknowledged: list[tuple[int, str]] = []
            is_over = Event()
            writers = [
                Thread(target=write_until, args=(place, topic, each, acknowledged, is_over))
                for each in range(WRITERS)
            ]
            path = place.instance("readers", "one", **{"auto.commit.enable": False})
            place.call("POST", f"{path}/subscription", {"topics": [topic]})
            for each in writers:
                each.start()
            try:
                done = read_some(place, path)
                assert place.call("POST", f"{path}/offsets").status == 204
                wait_until(lambda: len(acknowledged) > BEFORE_THE_KILL, "records are acknowledged")
                with broker.refusing_connections():
                    assert place.call("GET", "/topics/elsewhere").error == (503, 50003)
                before = len(acknowledged)
                wait_until(lambda: len(acknowledged) > before + BEFORE_THE_KILL, "more are acknowledged")
            finally:
                is_over.set()
                for each in writers:
                    each.join()
            kept = [(each.offset, json.loads(each.value or b"")) for each in broker.records(topic)]
            assert set(acknowledged) <= set(kept)
            assert len({value for _, value in kept}) == len(kept)
            # Another gateway goes on behind the commit.
            assert place.call("DELETE", path).status == 204
            with gateway_place(broker.bootstrap) as second:
                path = second.instance("readers", "two", **{"auto.commit.enable": False})
                second.call("POST", f"{path}/subscription", {"topics": [topic]})
                assert read_some(second, path)[0]["offset"] == done[-1]["offset"] + 1
