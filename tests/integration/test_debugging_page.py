"""docs/debugging.md: each symptom is reproduced, its commands run, and they say what the page says.

Requirements: OPS-7, CHK-7.
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.command_line import ottla_here
from tests.integration.metrics_page import get

import ottla
import ottla.blocking
import ottla.testing
from ottla.localcluster.waiting import wait_until
from ottla.testing.embedded_broker import EmbeddedBroker

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "debugging.md").read_text()
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "ottla.http.listener": "127.0.0.1:0"}
FIRST = ottla.TopicPartition("orders", 0)


def section(number: int) -> str:
    found = re.search(rf"\n## {number}\. .*?(?=\n## )", PAGE, re.DOTALL)
    assert found
    return found[0]


def said(number: int, bootstrap: str, http_port: int | None = None) -> str:
    """What the commands of a section print, complaints included."""
    (block,) = re.findall(r"```sh\n(.*?)```", section(number), re.DOTALL)
    return "\n".join(_typed(line, bootstrap, http_port) for line in block.strip().splitlines())


def _typed(line: str, bootstrap: str, http_port: int | None) -> str:
    words = shlex.split(line.replace("localhost:9092", bootstrap))
    if words[0] == "curl":
        assert http_port is not None
        return get(http_port, words[-1].partition(":9644")[2]).text
    done = ottla_here(*words[1:], bootstrap=bootstrap)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout + done.stderr


def promised(number: int) -> list[str]:
    """What the page says that the commands say: the code in the paragraph after them."""
    after = section(number).partition("```\n\n")[2].partition("\n\n")[0]
    phrases = [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", after)]
    assert phrases
    return phrases


def holds(number: int, output: str) -> None:
    flat = " ".join(output.split())
    for phrase in promised(number):
        assert phrase in flat, f"{phrase!r} is not in\n{output}"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(settings=SETTINGS) as made:
        yield made


@pytest.fixture
def http_port(broker: EmbeddedBroker) -> int:
    port = broker.look(lambda inside: inside.http_port)
    assert port is not None
    return port


def write(bootstrap: str, values: range, **settings: object) -> None:
    make: Callable[..., ottla.blocking.Producer] = ottla.blocking.Producer
    with make(bootstrap, **settings) as producer:
        for number in values:
            producer.send("orders", str(number), key="table 4", partition=0)


def read_some(bootstrap: str, group: str = "billing") -> None:
    with ottla.blocking.Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        consumer.poll(max_records=1)
        consumer.commit()


def test_1_missing_records_were_deleted_before_the_group_read_them(broker: EmbeddedBroker) -> None:
    write(broker.bootstrap, range(5))
    read_some(broker.bootstrap)
    with ottla.blocking.Admin(broker.bootstrap) as admin:
        admin.delete_records({FIRST: 3})
    holds(1, said(1, broker.bootstrap))


def test_2_a_producer_without_idempotence_may_write_twice(broker: EmbeddedBroker) -> None:
    write(broker.bootstrap, range(1), enable_idempotence=False)
    write(broker.bootstrap, range(1), enable_idempotence=False)
    output = said(2, broker.bootstrap)
    holds(2, output)
    assert output.count("table 4: 0") == 2


def test_3_an_open_transaction_holds_readers_back(broker: EmbeddedBroker) -> None:
    with ottla.blocking.Producer(broker.bootstrap, transactional_id="shop") as producer:
        with producer.transaction():
            producer.send("orders", "one coffee", partition=0)
            output = said(3, broker.bootstrap)
        holds(3, output)
        assert "shop" in output


def test_4_slow_requests_are_shown_with_their_parts_and_quotas_with_their_clients(
    broker: EmbeddedBroker, http_port: int
) -> None:
    write(broker.bootstrap, range(3))
    read_some(broker.bootstrap)
    with ottla.blocking.Admin(broker.bootstrap) as admin:
        admin.alter_quotas({ottla.QuotaEntity(client_id="shop"): {"producer_byte_rate": 1000.0}})
    holds(4, said(4, broker.bootstrap, http_port))


def test_5_rebalances_are_counted(broker: EmbeddedBroker, http_port: int) -> None:
    write(broker.bootstrap, range(5))
    for _ in range(3):
        read_some(broker.bootstrap)
    output = said(5, broker.bootstrap, http_port)
    holds(5, output)
    (counted,) = re.findall(r'ottla_group_rebalances_total{group="billing"} (\d+)', output)
    assert int(counted) >= 3


def test_6_a_topic_that_grew_has_a_keys_records_in_two_partitions(broker: EmbeddedBroker) -> None:
    broker.create_topic("orders", 1)
    with ottla.blocking.Producer(broker.bootstrap) as producer:
        producer.send("orders", "before", key="table 1")
    with ottla.blocking.Admin(broker.bootstrap) as admin:
        admin.create_partitions({"orders": 8})
    with ottla.blocking.Producer(broker.bootstrap) as producer:
        producer.send("orders", "after", key="table 1")
    output = said(6, broker.bootstrap)
    partitions = set(re.findall(r"^(\d+) \d+ table 1$", output, re.MULTILINE))
    assert len(partitions) == 2


def test_7_a_partition_whose_replicas_are_down_has_no_leader() -> None:
    with ottla.testing.cluster(3) as cluster:
        with ottla.blocking.Admin(cluster.bootstrap) as admin:
            topic = ottla.NewTopic("orders", partitions=3, replication_factor=1)
            ottla.succeeded(admin.create_topics([topic]))
        victims = {cluster.leader_of("orders", number) for number in range(3)} - {cluster.controller_id}
        cluster.kill(min(victims))
        with ottla.blocking.Admin(cluster.bootstrap) as admin:

            def is_noticed() -> bool:
                described = ottla.succeeded(admin.describe_topics(["orders"]))["orders"]
                return any(each.leader is None for each in described.partitions)

            wait_until(is_noticed, "the broker is fenced", 60.0)
        output = said(7, cluster.bootstrap)
    holds(7, output)
    assert f"start broker {min(victims)}" in output


def test_8_what_grows_is_counted(broker: EmbeddedBroker, http_port: int) -> None:
    write(broker.bootstrap, range(1))
    open_sockets = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(20)]
    try:
        output = said(8, broker.bootstrap, http_port)
    finally:
        for each in open_sockets:
            each.close()
    holds(8, output)
    (connections,) = re.findall(r"^ottla_connections{.*?} (\d+)", output, re.MULTILINE)
    assert int(connections) >= 20


def test_every_symptom_has_a_test_and_every_command_is_one() -> None:
    assert len(re.findall(r"^## \d\. ", PAGE, re.MULTILINE)) == 8
