"""Metrics, health and debugging pages of a running broker: the numbers are those of what was sent (OPS-2, CTL-8)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.awaiting import awaited
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.metrics_page import Metrics, get
from tests.integration.peer import Peer, batch, create_topic, fetch, now_ms, produce

import ottla
import ottla.blocking
from ottla.config import BrokerConfig, ConfigError
from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.runtime.unsynced_disk import UnsyncedDisk
from ottla.server.broker import Broker

DEADLINE_S = 20.0
HOUR_MS = 3_600_000
HTTP = {"ottla.http.listener": "127.0.0.1:0", "group.initial.rebalance.delay.ms": "0"}
TOPIC = "ottla_topic_"
PARTITION = "kafka_topic_partition_"
JMX = "kafka_server_brokertopicmetrics_"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with broker_thread(tmp_path_factory.mktemp("served") / "data", HTTP) as broker:
        yield broker


@pytest.fixture
def port(served: BrokerThread) -> int:
    assert served.broker.http_port
    return served.broker.http_port


def eventually(port: int, condition: Callable[[Metrics], bool], what: str) -> Metrics:
    """The first scrape for which a condition holds: a text is kept for a few milliseconds."""
    found: list[Metrics] = []

    def holds() -> bool:
        found.append(Metrics(port))
        return condition(found[-1])

    wait_until(holds, what, DEADLINE_S)
    return found[-1]


def test_what_producers_sent_is_what_the_metrics_say(
    served: BrokerThread, peer: Peer, topic: str, port: int
) -> None:
    create_topic(peer, topic, 2)
    before = Metrics(port)
    sent = [batch(b"v%d" % number, b"w") for number in range(7)]
    for number, records in enumerate(sent):
        assert produce(peer, topic, records, partition=number % 2).error_code == 0
    size_bytes = sum(map(len, sent))
    after = eventually(port, lambda seen: seen.counted(f"{TOPIC}records_in_total", topic=topic) == 14, "all")
    assert after.value(f"{TOPIC}in_bytes_total", topic=topic) == size_bytes
    assert after.value(f"{JMX}messagesin_total", topic=topic) == 14
    assert after.value(f"{JMX}bytesin_total", topic=topic) == size_bytes
    assert after.counted(f"{JMX}messagesin_total") - before.counted(f"{JMX}messagesin_total") == 14
    for name, labels in (
        ("ottla_request_duration_seconds_count", {"api": "PRODUCE"}),
        ("kafka_network_requestmetrics_requests_total", {"request": "PRODUCE"}),
        (f"{JMX}totalproducerequests_total", {}),
    ):
        assert after.counted(name, **labels) - before.counted(name, **labels) == 7
    assert after.value(f"{PARTITION}current_offset", topic=topic, partition=0) == 8
    assert after.value(f"{PARTITION}current_offset", topic=topic, partition=1) == 6
    assert after.value(f"{PARTITION}oldest_offset", topic=topic, partition=1) == 0
    assert after.value(f"{PARTITION}leader", topic=topic, partition=1) == 1
    assert after.value(f"{PARTITION}replicas", topic=topic, partition=1) == 1
    assert after.value(f"{PARTITION}in_sync_replica", topic=topic, partition=1) == 1
    assert after.value(f"{PARTITION}under_replicated_partition", topic=topic, partition=1) == 0
    assert after.value("kafka_topic_partitions", topic=topic) == 2
    assert after.value("kafka_brokers") == 1
    assert after.value("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert after.value("kafka_controller_kafkacontroller_offlinepartitionscount") == 0
    assert after.value("ottla_partition_size_bytes", topic=topic, partition=0) == sum(map(len, sent[::2]))


def test_what_consumers_got_is_what_the_metrics_say(peer: Peer, topic: str, port: int) -> None:
    create_topic(peer, topic)
    records = batch(b"a", b"b")
    produce(peer, topic, records)
    for _ in range(3):
        assert fetch(peer, topic, 0).error_code == 0
    after = eventually(port, lambda seen: seen.counted(f"{TOPIC}out_bytes_total", topic=topic) > 0, "sent")
    assert after.value(f"{TOPIC}out_bytes_total", topic=topic) == 3 * len(records)
    assert after.value(f"{JMX}bytesout_total", topic=topic) == 3 * len(records)
    assert after.counted(f"{JMX}totalfetchrequests_total") >= 3


def test_errors_are_counted_by_their_code(peer: Peer, port: int) -> None:
    labels = {"api": "PRODUCE", "error": "UNKNOWN_TOPIC_OR_PARTITION"}
    before = Metrics(port).counted("ottla_request_errors_total", **labels)
    for _ in range(2):
        assert produce(peer, "nowhere", batch(b"v")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    name = "ottla_request_errors_total"
    eventually(port, lambda seen: seen.counted(name, **labels) == before + 2, "the errors are counted")


def test_groups_have_members_offsets_and_lag(served: BrokerThread, peer: Peer, topic: str, port: int) -> None:
    create_topic(peer, topic)
    for number in range(10):
        produce(peer, topic, batch(b"%d" % number, timestamp=now_ms() - HOUR_MS))
    group = f"readers-of-{topic}"

    async def read() -> None:
        bootstrap = f"127.0.0.1:{served.port}"
        async with ottla.Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([topic])
            await anext(aiter(consumer))
            await consumer.commit({ottla.TopicPartition(topic, 0): 4})
            seen = await asyncio.to_thread(
                eventually,
                port,
                lambda seen: seen.counted("kafka_consumergroup_members", consumergroup=group) == 1,
                "there is a member",
            )
            labels = {"consumergroup": group, "topic": topic, "partition": "0"}
            assert seen.value("kafka_consumergroup_current_offset", **labels) == 4
            assert seen.value("kafka_consumergroup_lag", **labels) == 6
            assert seen.value("kafka_consumergroup_lag_sum", consumergroup=group, topic=topic) == 6
            of_ours = {"group": group, "topic": topic, "partition": "0"}
            assert seen.value("ottla_group_lag_records", **of_ours) == 6
            assert seen.value("ottla_group_records_until_deletion", **of_ours) == 4
            assert 3600 <= seen.counted("ottla_group_lag_seconds", **of_ours) < 5000
            week_s = 7 * 24 * 3600
            assert (
                week_s - 5000 < seen.counted("ottla_group_until_deletion_seconds", **of_ours) <= week_s - 3600
            )
            assert seen.counted("ottla_group_rebalances_total", group=group) == 1
            assert seen.counted("ottla_groups", state="Stable") >= 1

    awaited(read)


def test_open_transactions_and_what_they_hold_back(
    served: BrokerThread, peer: Peer, topic: str, port: int
) -> None:
    create_topic(peer, topic)

    async def write() -> None:
        held, name = {"topic": topic, "partition": "0"}, "ottla_partition_unstable_records"
        bootstrap = f"127.0.0.1:{served.port}"
        async with ottla.Producer(bootstrap, transactional_id=f"id-{topic}") as producer:
            async with producer.transaction():
                for number in range(3):
                    await producer.send(topic, b"%d" % number)
                seen = await asyncio.to_thread(
                    eventually, port, lambda seen: seen.value(name, **held) == 3, "held back"
                )
                assert seen.value("ottla_transactions", state="Ongoing") == 1
                assert seen.counted("ottla_transaction_oldest_seconds") > 0
            await asyncio.to_thread(
                eventually, port, lambda seen: seen.value(name, **held) == 0, "nothing is held back"
            )

    awaited(write)


def test_flushes_connections_and_the_process_are_counted(peer: Peer, topic: str, port: int) -> None:
    create_topic(peer, topic, flush_messages=1)
    name = "ottla_flush_duration_seconds_count"
    before = Metrics(port).counted(name)
    produce(peer, topic, batch(b"v"))
    after = eventually(port, lambda seen: seen.counted(name) > before, "a flush is counted")
    assert after.counted("ottla_connections", listener="PLAINTEXT") >= 1
    assert after.counted("ottla_connections_accepted_total", listener="PLAINTEXT") >= 1
    assert after.counted("ottla_received_bytes_total", listener="PLAINTEXT") > 0
    assert after.counted("process_resident_memory_bytes") > 10 << 20
    assert after.counted("process_open_fds") > 5
    assert after.counted("process_cpu_seconds_total") > 0
    assert abs(after.counted("process_start_time_seconds") - time.time()) < 3600
    assert after.counted("ottla_event_loop_delay_seconds_count") > 0
    assert after.counted("ottla_quorum_epoch") >= 1
    assert after.counted("ottla_disk_free_bytes") > 0


def test_both_formats_have_the_same_families_and_every_one_its_help(port: int) -> None:
    plain, rich = Metrics(port, openmetrics=False), Metrics(port)
    assert rich.content_type.startswith("application/openmetrics-text")
    assert plain.content_type.startswith("text/plain; version=0.0.4")
    assert {name.removesuffix("_info") for name in plain.families} == set(rich.families)
    assert all(family.documentation for family in rich.families.values())


def test_a_slow_request_is_the_exemplar_of_its_bucket(peer: Peer, topic: str, port: int) -> None:
    create_topic(peer, topic)
    fetch(peer, topic, 0, max_wait_ms=120, min_bytes=1)
    family = Metrics(port).families["ottla_request_duration_seconds"]
    of_fetch = [sample.exemplar for sample in family.samples if sample.labels.get("api") == "FETCH"]
    (exemplar,) = [each for each in of_fetch if each is not None]
    assert exemplar.value >= 0.12
    assert int(exemplar.labels["waiting_us"]) >= 100_000


def test_a_broker_that_serves_is_live_ready_and_healthy(port: int) -> None:
    for path, status in (("live", "live"), ("ready", "ready"), ("cluster", "healthy")):
        page = get(port, f"/health/{path}")
        assert (page.status, page.json["status"], page.json["reasons"]) == (200, status, [])


def test_the_state_page_knows_the_partitions_and_no_secret(peer: Peer, topic: str, port: int) -> None:
    create_topic(peer, topic)
    produce(peer, topic, batch(b"v"))
    state = get(port, "/debug/state").json
    (found,) = [each for each in state["partitions"] if each["topic"] == topic]
    assert (found["end_offset"], found["is_leader"], found["isr"]) == (1, True, [1])
    assert state["quorum"]["is_controller"] is True
    assert state["settings"]["ottla.http.listener"] == "127.0.0.1:0"


def test_the_tasks_page_shows_where_each_task_waits(port: int) -> None:
    tasks = get(port, "/debug/tasks").json["tasks"]
    assert any(task["coroutine"] == "Housekeeping._every" for task in tasks)
    assert all(task["stack"] for task in tasks)


def test_the_slow_page_has_the_parts_of_each_request(peer: Peer, topic: str, port: int) -> None:
    create_topic(peer, topic)
    fetch(peer, topic, 0, max_wait_ms=150, min_bytes=1)
    slowest = get(port, "/debug/slow").json["slowest"]
    totals = [each["total_us"] for each in slowest]
    assert totals == sorted(totals, reverse=True)
    found = next(each for each in slowest if (each["api"], each["client_id"]) == ("FETCH", "peer"))
    assert found["total_us"] == found["queue_us"] + found["handling_us"] + found["waiting_us"]
    assert found["waiting_us"] >= 100_000


def test_a_profile_has_a_line_for_each_stack(port: int) -> None:
    page = get(port, "/debug/profile?seconds=0.3")
    lines = page.text.splitlines()
    assert page.status == 200
    assert all(re.fullmatch(r"\S+(;\S+)* \d+", line) for line in lines)
    assert any("run_forever" in line for line in lines)


@pytest.mark.parametrize("seconds", ["0", "61", "-1", "nan", "many"])
def test_a_profile_of_an_impossible_length_is_refused(port: int, seconds: str) -> None:
    page = get(port, f"/debug/profile?seconds={seconds}")
    assert page.status == 400
    assert "from 0.1 to 60" in page.text


def test_an_unknown_path_lists_the_pages_and_other_methods_are_refused(port: int) -> None:
    page = get(port, "/metric")
    assert page.status == 404
    assert {"/metrics", "/health/ready", "/debug/state"} <= set(page.text.splitlines())
    assert get(port, "/metrics", method="POST").status == 501
    head = get(port, "/metrics", method="HEAD")
    assert (head.status, head.text) == (200, "")


def test_topics_and_groups_beyond_the_limit_are_counted_together(tmp_path: Path) -> None:
    settings = {**HTTP, "ottla.metrics.max.partitions": "2", "ottla.metrics.max.group.partitions": "1"}
    with broker_thread(tmp_path / "data", settings, UnsyncedDisk()) as broker, Peer(broker.port) as peer:
        for name, partitions in (("a", 2), ("b", 1), ("c", 2)):
            create_topic(peer, name, partitions)
            for index in range(partitions):
                produce(peer, name, batch(b"1", b"2"), partition=index)
        assert broker.broker.http_port
        with ottla.blocking.Admin(f"127.0.0.1:{broker.port}") as admin:
            for group in ("first", "second", "third"):
                admin.alter_group_offsets(group, {ottla.TopicPartition("a", 0): ottla.CommittedOffset(1)})
        seen = Metrics(broker.broker.http_port)
    assert seen.value(f"{TOPIC}records_in_total", topic="a") == 4
    assert seen.value(f"{TOPIC}records_in_total", topic="__other__") == 6
    assert {each["topic"] for each in seen.labels(f"{PARTITION}current_offset")} == {"a", "__other__"}
    # With the three commits in __consumer_offsets.
    assert seen.value(f"{PARTITION}current_offset", topic="__other__", partition=-1) == 6 + 3
    assert seen.counted("ottla_metrics_hidden_topics") >= 2
    assert seen.value("ottla_metrics_hidden_groups") == 2
    lag = "kafka_consumergroup_lag"
    (shown,) = {each["consumergroup"] for each in seen.labels(lag)} - {"__other__"}
    assert seen.value(lag, consumergroup=shown, topic="a", partition=0) == 1
    assert seen.value(lag, consumergroup="__other__", topic="__other__", partition=-1) == 2


def test_connections_that_are_refused_are_counted(tmp_path: Path) -> None:
    settings = {**HTTP, "max.connections": "1"}
    with broker_thread(tmp_path / "data", settings, UnsyncedDisk()) as broker, Peer(broker.port):
        port = broker.broker.http_port
        assert port
        for _ in range(3):
            with Peer(broker.port) as refused:
                assert refused.is_closed()
        name = "ottla_connections_refused_total"
        eventually(port, lambda seen: seen.value(name, listener="PLAINTEXT") == 3, "three were refused")


def test_a_port_that_is_taken_is_refused_in_one_sentence(port: int, tmp_path: Path) -> None:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dir": str(tmp_path)}
    taken = {**settings, "ottla.http.listener": f"127.0.0.1:{port}"}

    async def start() -> None:
        with pytest.raises(
            ConfigError, match=f"ottla.http.listener cannot be 127.0.0.1:{port}: address already"
        ):
            await Broker(BrokerConfig.from_properties(taken)).start()

    asyncio.run(start())
