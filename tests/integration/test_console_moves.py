"""The console empties brokers, spreads replicas evenly, and cancels moves (GTW-5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from tests.integration.console_caller import ConsoleCaller, parses
from tests.integration.gateway_place import gateway_place

import ottla
import ottla.blocking
import ottla.testing
from ottla.gateway.console import move_actions
from ottla.localcluster.waiting import wait_until
from ottla.testing.embedded_cluster import EmbeddedCluster

TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with ottla.testing.cluster(brokers=3) as started:
        started.create_topic(TOPIC, partitions=6, replication_factor=2)
        yield started


@pytest.fixture(scope="module")
def console(cluster: EmbeddedCluster) -> Iterator[ConsoleCaller]:
    with gateway_place(cluster.bootstrap, console="write") as place:
        yield ConsoleCaller(place)


def replicas(cluster: EmbeddedCluster) -> Counter[int]:
    """How many replicas of the topic each broker has, when none of them moves."""
    with ottla.blocking.Admin(cluster.bootstrap) as admin:
        if admin.list_reassignments():
            return Counter()
        topic = ottla.succeeded(admin.describe_topics([TOPIC]))[TOPIC]
    return Counter(node_id for each in topic.partitions for node_id in each.replicas)


def test_a_broker_is_emptied_and_filled_again(console: ConsoleCaller, cluster: EmbeddedCluster) -> None:
    before = replicas(cluster)
    plan = console.preview("drain", broker=3)
    parses(plan["command"])
    assert plan["command"].startswith("ottla cluster drain 3 --bootstrap")
    assert "to empty broker 3. They are served meanwhile" in plan["what"]
    assert len([row for row in plan["rows"] if row["partition"].startswith(TOPIC)]) >= before[3] > 0
    assert all("3" not in row["then"].split(", ") for row in plan["rows"] if "3" in row["now"].split(", "))
    assert replicas(cluster) == before, "a preview moves nothing"
    assert console.act("drain", broker=3).status == 200
    wait_until(lambda: sorted(replicas(cluster)) == [1, 2], "the broker is empty", 60.0)
    plan = console.preview("rebalance")
    parses(plan["command"])
    assert "to spread replicas evenly" in plan["what"]
    assert console.act("rebalance").status == 200
    wait_until(lambda: sorted(replicas(cluster)) == [1, 2, 3], "it has replicas again", 60.0)


def test_moves_that_cannot_be_are_refused_in_words(
    console: ConsoleCaller, cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_until(lambda: bool(replicas(cluster)), "nothing moves", 60.0)
    assert console.act("cancel-moves").json["message"] == "nothing is being moved"
    assert console.act("drain", broker="3").status == 422
    unknown = console.act("drain", broker=9)
    assert unknown.status >= 400
    assert "No broker 9" in unknown.json["message"]
    monkeypatch.setattr(move_actions, "_MOST", 0)
    large = console.act("drain", broker=3)
    assert large.status == 409
    assert "ottla cluster drain 3" in large.json["message"]


def test_moves_under_way_are_cancelled(console: ConsoleCaller, cluster: EmbeddedCluster) -> None:
    wait_until(lambda: bool(replicas(cluster)), "nothing moves", 60.0)
    before = replicas(cluster)
    # A stopped broker takes no replica, so the moves to it last until they are cancelled.
    cluster.stop(3)
    try:
        with ottla.blocking.Admin(cluster.bootstrap) as admin:
            wait_until(lambda: len(admin.describe_cluster().brokers) == 2, "the cluster knows", 60.0)
            topic = ottla.succeeded(admin.describe_topics([TOPIC]))[TOPIC]
            index = next(each.index for each in topic.partitions if 3 not in each.replicas)
            ottla.succeeded(admin.alter_reassignments({ottla.TopicPartition(TOPIC, index): [1, 3]}))
        plan = console.preview("cancel-moves")
        parses(plan["command"])
        assert "Ends 1 move under way, where each began" in plan["what"]
        done = console.act("cancel-moves")
        assert done.json.get("done") == "1 move cancelled.", done.body
        assert replicas(cluster) == before
    finally:
        cluster.start(3)
