"""Questions without an event loop, against real brokers."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import ottla.testing
from ottla.blocking import Admin, Producer
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.client.sync.planner_admin import PlannerAdmin
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.wire.failures import CannotConnectError

A0, A1, NONE_SUCH = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def opened(bootstrap: str, timeout_ms: int = 30_000) -> PlannerAdmin:
    return PlannerAdmin(bootstrap, client_id="raw", timeout_ms=timeout_ms)


def filled(broker: ottla.testing.EmbeddedBroker) -> None:
    broker.create_topic("a", 2)
    with Producer(broker.bootstrap) as producer:
        for number in range(5):
            producer.send("a", b"x", partition=number % 2)


def offset(answer: ListedOffset | KafkaError) -> int | ErrorCode:
    return answer.offset if isinstance(answer, ListedOffset) else answer.code


def test_it_answers_what_the_administrator_s_client_answers() -> None:
    with ottla.testing.broker() as broker, Admin(broker.bootstrap) as other:
        filled(broker)
        admin = opened(broker.bootstrap)
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, 0, 2**40):
            wanted = {A0: int(spec), A1: int(spec), NONE_SUCH: int(spec)}
            assert {each: offset(answer) for each, answer in admin.list_offsets(wanted).items()} == {
                each: offset(answer) for each, answer in other.list_offsets(wanted).items()
            }
        assert admin.list_topics() == other.list_topics()
        assert admin.describe_topics(["a"]) == other.describe_topics(["a"])
        missing = admin.describe_topics(["b"])["b"]
        assert isinstance(missing, KafkaError)
        assert missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        admin.close()


def test_offsets_are_committed_for_a_group_without_members() -> None:
    with ottla.testing.broker() as broker, Admin(broker.bootstrap) as other:
        filled(broker)
        admin = opened(broker.bootstrap)
        for committed in (1, 2):
            assert admin.alter_group_offsets("mill", {A0: committed, A1: 0}) == {A0: None, A1: None}
            found = other.list_group_offsets("mill")
            assert {each: getattr(value, "offset", value) for each, value in found.items()} == {
                A0: committed,
                A1: 0,
            }
        admin.close()


def test_nothing_is_asked_about_nothing() -> None:
    admin = opened("127.0.0.1:1")
    assert admin.list_offsets({}) == {}
    assert admin.describe_topics([]) == {}


def test_a_cluster_that_was_never_reached_is_not_waited_for() -> None:
    begun = time.monotonic()
    with pytest.raises(CannotConnectError, match=r"could not reach 127\.0\.0\.1:1"):
        opened("127.0.0.1:1", timeout_ms=60_000).list_topics()
    assert time.monotonic() - begun < 30


def test_a_broker_that_comes_back_is_waited_for() -> None:
    with ottla.testing.broker() as broker, ThreadPoolExecutor() as pool:
        filled(broker)
        admin = opened(broker.bootstrap)
        assert offset(admin.list_offsets({A0: OffsetSpec.LATEST})[A0]) == 3
        assert admin.alter_group_offsets("mill", {A0: 1}) == {A0: None}
        broker.kill()
        listed = pool.submit(admin.list_offsets, {A0: OffsetSpec.LATEST})
        broker.restart()
        assert offset(listed.result(60)[A0]) == 3
        assert admin.alter_group_offsets("mill", {A0: 2}) == {A0: None}
        admin.close()


def test_it_imports_no_event_loop() -> None:
    """Spark starts a process for each stream: what it imports is what its user waits for."""
    check = "import sys, ottla.client.sync.planner_admin; sys.exit('asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
