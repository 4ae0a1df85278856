"""Tiered storage as Apache Kafka's own tools and Java's consumer see it: nothing unusual (OPS-6)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bench.apache.kafka import fetch
from bench.apache.maven import CannotFetchError
from tests.compat.test_java_tools import Tools, consume
from tests.integration.peer import Peer, create_topic, list_offset
from tests.integration.test_tiers import SETTINGS, TIERED, fill

from ottla.localcluster.broker_process import running, start_broker
from ottla.localcluster.waiting import wait_until

RECORDS = 188
EARLIEST_LOCAL, LATEST_TIERED = -4, -5


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """The tools, and a broker whose topic "cold" lies in the store to nine tenths."""
    try:
        fetch()
    except CannotFetchError as reason:
        pytest.skip(f"NO APACHE KAFKA TOOLS: {reason}")
    place = tmp_path_factory.mktemp("tiers")
    settings = {**SETTINGS, "ottla.remote.store.url": f"file://{place}/tier"}
    with running(start_broker(place / "data", settings)) as broker:
        with Peer(broker.port) as peer:
            # By the protocol: the tool itself refuses such small segments.
            create_topic(peer, "cold", **{**TIERED, "segment_bytes": 20_000, "local_retention_bytes": 1})
            fill(peer, "cold", 0, RECORDS)
            wait_until(lambda: _is_quiet(peer), "nine tenths are in the store only", 60)
        yield Tools(broker.bootstrap)


def _is_quiet(peer: Peer) -> bool:
    local = list_offset(peer, "cold", EARLIEST_LOCAL).offset
    return local >= 0.9 * RECORDS and list_offset(peer, "cold", LATEST_TIERED).offset == local - 1


def offset(tools: Tools, time: str) -> int:
    answer = tools.run("get-offsets", "--topic-partitions", "cold:0", "--time", time).stdout
    return int(answer.strip().removeprefix("cold:0:"))


def test_javas_consumer_reads_a_topic_whose_first_nine_tenths_are_in_the_store(tools: Tools) -> None:
    lines = consume(tools, "cold", 0, "earliest", RECORDS)
    assert [int(line.partition(":")[2].rstrip(".")) for line in lines] == list(range(RECORDS))
    assert [line.partition(":")[2].rstrip(".") for line in consume(tools, "cold", 0, "77", 3)] == [
        "77",
        "78",
        "79",
    ]


def test_the_offsets_tool_sees_where_the_local_part_begins_and_the_remote_part_ends(tools: Tools) -> None:
    local = offset(tools, "earliest-local")
    assert local >= 0.9 * RECORDS
    assert [offset(tools, time) for time in ("earliest", "latest-tiered", "latest")] == [
        0,
        local - 1,
        RECORDS,
    ]


def test_the_configs_tool_shows_the_settings(tools: Tools) -> None:
    shown = tools.run("configs", "--describe", "--entity-type", "topics", "--entity-name", "cold").stdout
    assert "remote.storage.enable=true" in shown
    assert "local.retention.bytes=1 " in shown
