"""The console's page and API over real sockets, in front of a real broker (GTW-5)."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.console_caller import API, ConsoleCaller, parses
from tests.integration.gateway_place import V2, GatewayPlace, gateway_place

import ottla
import ottla.testing
from ottla.gateway.console.page import CONTENT_POLICY
from ottla.localcluster.waiting import wait_until
from ottla.testing.embedded_broker import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker() as started:
        started.create_topic("orders", partitions=3)
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(broker.bootstrap, console="write") as place:
        records = [
            {
                "key": f"table {n % 4}",
                "value": {"drink": ["tea", "coffee"][n % 2], "n": n},
                "partition": n % 3,
            }
            for n in range(90)
        ]
        assert place.call("POST", "/topics/orders", {"records": records}).status == 200
        yield place


@pytest.fixture(scope="module")
def console(gateway: GatewayPlace) -> ConsoleCaller:
    return ConsoleCaller(gateway)


# ---- the page


def test_the_page_loads_only_its_own_files_under_a_strict_policy(gateway: GatewayPlace) -> None:
    page = gateway.call("GET", "/console", headers={"Accept": "text/html"})
    text = page.body.decode()
    assert page.headers["content-security-policy"] == CONTENT_POLICY
    assert "unsafe" not in CONTENT_POLICY
    assert page.headers["cache-control"] == "no-cache"
    assert not re.findall(r"<(?:script|style)[^>]*>[^<]|\son\w+=|style=", text)
    addresses = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert len(addresses) == 3
    for address in addresses:
        file = gateway.call("GET", address)
        assert (file.status, file.headers["cache-control"]) == (200, "public, max-age=31536000, immutable")
        again = gateway.call("GET", address, headers={"If-None-Match": file.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
        packed = gateway.call("GET", address, headers={"Accept-Encoding": "gzip"})
        assert gzip.decompress(packed.body) == file.body
    assert gateway.call("GET", addresses[0].replace("/static/", "/static/0")).status == 404
    assert gateway.call("GET", f"{addresses[0].rpartition('/')[0]}/..%2Fpage.py").status == 404


def test_all_that_a_browser_loads_is_small(gateway: GatewayPlace) -> None:
    page = gateway.gateway._console.page  # type: ignore[union-attr]
    assert page.compressed_bytes < 60_000


def test_browsers_go_from_the_root_to_the_console_and_programs_do_not(gateway: GatewayPlace) -> None:
    browser = gateway.call("GET", "/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (browser.status, browser.headers["location"]) == (302, "/console")
    assert gateway.call("GET", "/", headers={"Accept": "*/*"}).json["docs"] == "/docs"


def test_a_gateway_can_do_without_the_console(broker: EmbeddedBroker) -> None:
    with gateway_place(broker.bootstrap, console="off") as place:
        assert place.call("GET", "/console").status == 404
        assert place.call("GET", "/", headers={"Accept": "text/html"}).headers["location"] == "/docs"


# ---- what it shows


def test_home_shows_the_findings_of_the_doctor(console: ConsoleCaller) -> None:
    health = console.get("/health")
    assert health["is_healthy"] is True
    assert health["facts"]["brokers"] == 1
    parses(health["command"])


def test_rates_and_lag_are_sampled_once_somebody_looks(console: ConsoleCaller) -> None:
    wait_until(lambda: len(console.get("/rates")["at_ms"]) >= 1, "no sample was taken", 30)
    series = console.get("/rates")
    assert len(series["lag"]) == len(series["at_ms"]) == len(series["records_per_s"])


def test_topics_are_listed_searched_and_counted(console: ConsoleCaller) -> None:
    listed = console.get("/topics", search="ORD")
    assert [each["name"] for each in listed["topics"]] == ["orders"]
    assert (listed["total"], listed["topics"][0]["partition_count"]) == (1, 3)
    assert console.get("/topics", search="nothing like it")["topics"] == []
    figures = console.get("/topic-figures", names="orders,absent")["figures"]
    assert figures.keys() == {"orders"}
    assert figures["orders"]["records"] >= 90
    assert figures["orders"]["bytes"] > 0


def test_a_topic_has_partitions_settings_readers_and_writers(console: ConsoleCaller) -> None:
    topic = console.get("/topics/orders", per_page=2)
    assert [each["partition"] for each in topic["rows"]] == [0, 1]
    assert topic["pages"]["pages"] == 2
    assert topic["rows"][0]["replicas"] == [{"broker": 1, "in_sync": True, "is_offline": False}]
    settings = {each["name"]: each for each in console.get("/topics/orders/configs")["configs"]}
    assert settings["retention.ms"]["source"] in ("DEFAULT", "STATIC_BROKER")
    assert console.get("/topics/orders/readers")["readers"] == []
    assert console.get("/topics/orders/writers")["writers"][0]["partitions"] == [0, 1, 2]
    parses(topic["command"])


def test_what_is_not_there_is_a_404_with_a_sentence(console: ConsoleCaller) -> None:
    for path in ("/topics/absent", "/topics/absent/records", "/groups/absent", "/brokers/77", "/schemas/absent",
                 "/topics/orders/partitions/9/records/0", "/topics/orders/partitions/0/records/999"):  # fmt: skip
        reply = console.ask("GET", path)
        assert reply.status == 404, path
        assert len(reply.json["message"]) > 10


def test_brokers_show_their_load_and_the_quorum(console: ConsoleCaller, broker: EmbeddedBroker) -> None:
    shown = console.get("/brokers")
    [only] = shown["brokers"]
    assert (only["is_alive"], only["is_controller"], only["address"]) == (True, True, broker.bootstrap)
    assert only["leaders"] >= 3
    assert only["load"]["resident_bytes"] > 0
    assert (shown["moves"], shown["is_local"]) == ([], False)
    settings = console.get("/brokers/1")
    assert any(each["name"] == "log.retention.ms" for each in settings["configs"])
    parses(settings["command"])


# ---- records


def found(console: ConsoleCaller, topic: str = "orders", **query: Any) -> list[tuple[int, int]]:
    return [
        (each["partition"], each["offset"])
        for each in console.get(f"/topics/{topic}/records", **query)["records"]
    ]


def test_the_newest_records_come_first_and_pages_repeat_nothing(console: ConsoleCaller) -> None:
    seen, cursor = [], ""
    while cursor is not None:
        page = console.get("/topics/orders/records", limit=40, cursor=cursor)
        seen += [(each["partition"], each["offset"]) for each in page["records"]]
        times = [each["timestamp"] for each in page["records"]]
        assert times == sorted(times, reverse=True)
        cursor = page["cursor"]
    assert len(seen) == len(set(seen)) >= 90
    parses(page["command"])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ('key="table 3"', {n for n in range(90) if n % 4 == 3}),
        ("value.n=41", {41}),
        ("value.drink~^cof\nvalue.n~^8.$", {81, 83, 85, 87, 89}),
        ('"n":7', {7, *range(70, 80)}),
        ("no such text", set()),
    ],
)
def test_records_are_found_by_key_field_and_text(
    console: ConsoleCaller, where: str, expected: set[int]
) -> None:
    page = console.get("/topics/orders/records", where=where, limit=500)
    assert {each["value"]["n"] for each in page["records"] if "n" in each["value"]} == expected
    parses(page["command"])


def test_a_search_begins_at_an_offset_or_a_time_in_one_partition(console: ConsoleCaller) -> None:
    assert found(console, partition=1, limit=2, **{"from": "5"}) == [(1, 5), (1, 6)]
    assert found(console, partition=1, limit=1, **{"from": "earliest"}) == [(1, 0)]
    assert found(console, **{"from": "2100-01-01T00:00:00Z"}) == []
    assert len(found(console, limit=500, **{"from": "2020-01-01T00:00:00Z"})) >= 90


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ({"where": "colour=red"}, 400, "there is no field"),
        ({"where": "value~("}, 400, "no regular expression"),
        ({"where": "value~(a+)+$"}, 400, "may take too long here"),
        ({"where": "key!~a|b"}, 400, "may take too long here"),
        ({"from": "yesterday"}, 400, "a read cannot begin"),
        ({"partition": "9"}, 404, "no partition 9"),
        ({"limit": "100000"}, 400, "at most 500"),
        ({"cursor": "x"}, 400, "the cursor cannot be"),
    ],
)
def test_a_search_that_cannot_be_is_refused_in_words(
    console: ConsoleCaller, query: dict[str, str], status: int, words: str
) -> None:
    reply = console.ask("GET", "/topics/orders/records", **query)
    assert (reply.status, words in reply.json["message"]) == (status, True), reply.body


def test_the_newest_record_of_each_key_is_the_compacted_view(console: ConsoleCaller) -> None:
    page = console.get("/topics/orders/records", by_key="true", limit=500)
    assert page["cursor"] is None
    keys = [(each["partition"], each["key"]) for each in page["records"]]
    assert len(keys) == len(set(keys)) == 12


def test_one_record_is_shown_in_full(console: ConsoleCaller) -> None:
    record = console.get("/topics/orders/partitions/0/records/2")
    assert (record["key"], record["value"]) == ("table 2", {"drink": "tea", "n": 6})
    assert record["value_bytes"]["size"] == record["value_size"]
    assert record["origin"] is None
    parses(record["command"])


def test_an_export_is_what_produce_takes(gateway: GatewayPlace) -> None:
    reply = gateway.call("GET", f"{API}/topics/orders/export?where=value.drink%3Dtea&limit=1000")
    assert reply.headers["content-disposition"] == 'attachment; filename="orders.jsonl"'
    lines = [json.loads(line) for line in reply.body.splitlines()]
    assert len(lines) == 45
    assert {json.loads(each["value"])["drink"] for each in lines} == {"tea"}
    from ottla.cli.records.line_parsers import json_line

    assert json_line(reply.body.splitlines()[0]).value is not None


def test_a_live_tail_sends_the_records_that_match(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    broker.create_topic("tailed")
    with gateway.connect() as connection:
        path = f"{API}/topics/tailed/events?where=value.n%3D2"
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n".encode())
        stream = connection.makefile("rb")
        while b"connected" not in stream.readline():
            pass
        gateway.produce("tailed", {"n": 1}, {"n": 2}, {"n": 3})
        line = b""
        while not line.startswith(b"data: "):
            line = stream.readline()
    shown = json.loads(line.removeprefix(b"data: "))
    assert (shown["offset"], shown["value"]) == (1, {"n": 2})


# ---- groups


def test_a_group_is_shown_with_its_lag_and_moved_with_a_preview(
    gateway: GatewayPlace, console: ConsoleCaller, broker: EmbeddedBroker
) -> None:
    broker.create_topic("read")
    gateway.produce("read", *range(10))
    instance = gateway.instance("readers")
    gateway.call("POST", f"{instance}/subscription", {"topics": ["read"]}, content_type=V2)
    wait_until(lambda: bool(gateway.call("GET", f"{instance}/records?timeout=5000").json), "nothing came", 30)
    gateway.call("POST", f"{instance}/offsets", {"offsets": [{"topic": "read", "partition": 0, "offset": 3}]}, content_type=V2)  # fmt: skip
    [row] = console.get("/groups", search="readers")["groups"]
    assert (row["state"], row["members"], row["topics"], row["lag"]) == ("Stable", 1, ["read"], 6)
    [progress] = console.get("/groups/readers")["partitions"]
    assert (progress["lag_records"], progress["committed_offset"]) == (6, 4)
    plan = console.preview("reset-offsets", group="readers", target="to-earliest")
    assert "4 records will be read again" in plan["what"]
    assert "will be refused until its consumers are stopped" in plan["what"]
    assert plan["rows"][0] == {"partition": "read-0", "now": 4, "then": 0, "change": -4, "note": ""}
    assert console.act("reset-offsets", group="readers", target="to-earliest").status >= 400
    assert console.get("/topics/read/readers")["readers"][0]["lag"] == 6
    assert console.act("remove-members", group="readers").status == 200
    gateway.call("DELETE", instance)
    wait_until(lambda: console.get("/groups/readers")["state"] == "Empty", "the group kept its member", 30)
    moved = console.act("reset-offsets", group="readers", target="shift", value=-3)
    assert moved.status == 200, moved.body
    parses(moved.json["command"])
    assert console.get("/groups/readers")["partitions"][0]["committed_offset"] < 10
    plan = console.preview("delete-group", group="readers")
    assert plan["is_destructive"] is True
    assert console.act("delete-group", group="readers").status == 200
    assert console.ask("GET", "/groups/readers").status == 404
