"""The console's actions: planned, refused, carried out, each with a command that the command line takes."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.console_caller import API, ConsoleCaller, parses
from tests.integration.gateway_place import V2, GatewayPlace, gateway_place
from tests.repository import ROOT

import ottla
import ottla.testing
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
        place.produce("orders", *range(5))
        reader = place.instance("someone")  # makes the cluster's own topic of offsets
        partition = {"partitions": [{"topic": "orders", "partition": 0}]}
        place.call("POST", f"{reader}/assignments", partition, content_type=V2)
        offsets = {"offsets": [{"topic": "orders", "partition": 0, "offset": 1}]}
        assert place.call("POST", f"{reader}/offsets", offsets, content_type=V2).status in (200, 204)
        yield place


@pytest.fixture(scope="module")
def console(gateway: GatewayPlace) -> ConsoleCaller:
    return ConsoleCaller(gateway)


def test_a_topic_is_planned_created_changed_and_deleted(console: ConsoleCaller) -> None:
    plan = console.preview("create-topic", topic="made", partitions=2, configs={"retention.ms": "5000"})
    assert plan["what"] == "Creates the topic made with 2 partitions."
    assert plan["may_write"] is True
    assert console.ask("GET", "/topics/made").status == 404
    assert (
        console.act("create-topic", topic="made", partitions=2).json["done"] == "The topic made is created."
    )
    assert console.act("create-topic", topic="made").json["kafka_error"] == "TOPIC_ALREADY_EXISTS"
    plan = console.preview("set-configs", topic="made", configs={"retention.ms": "7000"})
    assert [(each["setting"], each["then"]) for each in plan["rows"]] == [("retention.ms", "7000")]
    assert console.act("set-configs", topic="made", configs={"retention.ms": "7000"}).status == 200
    refused = console.ask("POST", "/actions/set-configs", {"topic": "made", "configs": {"retention.ms": "soon"}, "preview": True})  # fmt: skip
    assert refused.status == 400
    assert "from 2 partitions to 4" in console.preview("grow-topic", topic="made", partitions=4)["what"]
    assert console.act("grow-topic", topic="made", partitions=4).status == 200
    sent = console.act("send-record", topic="made", key="k", value={"a": 1}, headers={"h": "1"}, partition=1)
    assert sent.json["done"] == "Written to made, partition 1, at offset 0."
    plan = console.preview("delete-topic", topic="made")
    assert plan["what"] == "Deletes the topic made for good: 4 partitions with 1 record."
    assert (plan["is_destructive"], plan["name"]) == (True, "made")
    assert console.act("delete-topic", topic="made").status == 200
    assert console.ask("GET", "/topics/made").status == 404


def test_every_plan_has_a_command_that_the_command_line_takes(console: ConsoleCaller) -> None:
    plans = [
        console.preview("create-topic", topic="later", partitions=3, configs={"segment.bytes": "2000000"}),
        console.preview("grow-topic", topic="orders", partitions=5),
        console.preview("set-configs", topic="orders", configs={"retention.ms": "9", "segment.ms": None}),
        console.preview("delete-topic", topic="orders"),
        console.preview("send-record", topic="orders", value="text", value_encoding="text"),
    ]
    for plan in plans:
        parses(plan["command"])


@pytest.mark.parametrize(
    ("action", "body", "status"),
    [
        ("create-topic", {}, 422),
        ("create-topic", {"topic": "bad name"}, 404),
        ("grow-topic", {"topic": "orders", "partitions": 1}, 400),
        ("delete-topic", {"topic": "__consumer_offsets"}, 403),
        ("send-record", {"topic": "orders", "value": 1, "partition": 70}, 422),
        ("send-record", {"topic": "orders", "value": 1, "headers": 3}, 422),
        ("reset-offsets", {"group": "g", "target": "to-the-moon"}, 422),
        ("reset-offsets", {"group": "nobody", "target": "to-latest"}, 409),
        ("abort-transaction", {"transactional_id": "nobody"}, 404),
        ("abort-hanging", {"topic": "orders", "partition": 0, "producer_id": 1}, 409),
        ("broker", {"verb": "kill", "broker": 1}, 409),
        ("redrive", {"topic": "orders", "records": [{"partition": 0, "offset": 0}]}, 422),
        ("redrive", {"topic": "orders", "records": []}, 422),
        ("dance", {}, 404),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_happens(
    console: ConsoleCaller, action: str, body: dict[str, Any], status: int
) -> None:
    reply = console.act(action, **body)
    assert (reply.status, len(reply.json["message"]) > 10) == (status, True), reply.body


def test_dead_letters_say_why_and_go_back_to_where_they_came_from(
    console: ConsoleCaller, broker: EmbeddedBroker
) -> None:
    broker.create_topic("sales")
    broker.create_topic("sales.dead")
    headers = {
        "dead-letter.reason": "no price",
        "dead-letter.topic": "sales",
        "dead-letter.offset": "4",
        "trace": "x",
    }
    for number in range(2):
        sent = console.act("send-record", topic="sales.dead", key="k", value={"n": number}, headers=headers)
        assert sent.status == 200
    letter = console.get("/topics/sales.dead/partitions/0/records/0")
    assert letter["origin"] == {"reason": "no price", "topic": "sales", "partition": None, "offset": 4}
    chosen = [{"partition": 0, "offset": 0}, {"partition": 0, "offset": 1, "value": {"n": 1, "price": 3}}]
    plan = console.preview("redrive", topic="sales.dead", records=chosen)
    assert "Sends 2 dead letters to sales" in plan["what"]
    assert plan["rows"][0]["reason"] == "no price"
    assert console.get("/topics/sales/records")["records"] == []
    assert (
        console.act("redrive", topic="sales.dead", records=chosen).json["done"] == "2 records sent to sales."
    )
    back = sorted(console.get("/topics/sales/records")["records"], key=lambda each: each["offset"])
    assert [each["value"] for each in back] == [{"n": 0}, {"n": 1, "price": 3}]
    assert back[0]["headers"] == {"trace": "x"}


async def _held_open(bootstrap: str) -> contextlib.AsyncExitStack:
    """A transaction that stays open until the stack is closed."""
    stack = contextlib.AsyncExitStack()
    producer = await stack.enter_async_context(ottla.Producer(bootstrap, transactional_id="slow-billing"))
    await stack.enter_async_context(producer.transaction())
    await producer.send("orders", b"{}", partition=0)
    return stack


def test_an_open_transaction_is_shown_with_its_readers_and_aborted(
    gateway: GatewayPlace, console: ConsoleCaller, broker: EmbeddedBroker
) -> None:
    held_open = gateway.thread.run(lambda: _held_open(broker.bootstrap), 60)
    try:
        wait_until(lambda: bool(console.get("/held-readers")["held"]), "nobody was held back", 30)
        [held] = console.get("/held-readers")["held"]
        assert (held["topic"], held["partition"], held["records"]) == ("orders", 0, 1)
        [shown] = console.get("/transactions")["transactions"]
        assert (shown["transactional_id"], shown["partitions"]) == ("slow-billing", ["orders-0"])
        plan = console.preview("abort-transaction", transactional_id="slow-billing")
        assert "Aborts the open transaction of slow-billing in 1 partition" in plan["what"]
        parses(plan["command"])
        assert console.act("abort-transaction", transactional_id="slow-billing").status == 200
        wait_until(lambda: not console.get("/held-readers")["held"], "readers were held back", 30)
        assert console.get("/transactions", open="false")["total"] >= 1
    finally:
        gateway.thread.run(lambda: _given_up(held_open), 60)


async def _given_up(held_open: contextlib.AsyncExitStack) -> None:
    with contextlib.suppress(ottla.KafkaError, ConnectionError):  # its producer is fenced
        await held_open.aclose()


# ---- who may


def test_only_the_own_page_may_change_something(gateway: GatewayPlace) -> None:
    reply = gateway.call(
        "POST", f"{API}/actions/create-topic", {"topic": "forged"}, content_type="application/json"
    )
    assert (reply.status, "X-Ottla-Console" in reply.json["message"]) == (403, True)
    preflight = gateway.call(
        "OPTIONS", f"{API}/actions/create-topic", headers={"Origin": "https://evil.example"}
    )
    assert "access-control-allow-origin" not in preflight.headers


def test_a_console_that_only_reads_plans_and_does_not_act(broker: EmbeddedBroker) -> None:
    with gateway_place(broker.bootstrap) as place:
        console = ConsoleCaller(place)
        assert console.get("/session")["may_write"] is False
        plan = console.preview("delete-topic", topic="orders")
        assert "--console-writes" in plan["refusal"]
        parses(plan["command"])
        reply = console.act("delete-topic", topic="orders")
        assert (reply.status, "this console only reads" in reply.json["message"]) == (403, True)
        assert console.get("/topics/orders")["partition_count"] == 3


def test_large_answers_are_compressed(gateway: GatewayPlace) -> None:
    reply = gateway.call("GET", f"{API}/topics/orders/configs", headers={"Accept-Encoding": "gzip"})
    assert reply.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(reply.body))["configs"]


def test_rights_are_shown_or_said_not_to_be_checked(console: ConsoleCaller) -> None:
    rights = console.get("/acls")
    assert rights["acls"] == []
    assert "checks no rights" in rights["note"]
    assert console.get("/users")["users"] == []
    assert console.get("/quotas")["quotas"] == []


# ---- docs/console.md


def test_the_commands_of_the_page_are_taken_by_the_command_line() -> None:
    page = (ROOT / "docs" / "console.md").read_text(encoding="utf-8")
    for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL):
        for line in block.splitlines():
            parses(line)


def test_the_plan_of_the_page_is_the_one_that_is_answered() -> None:
    page = (ROOT / "docs" / "console.md").read_text(encoding="utf-8")
    [asked] = re.findall(r"```http\nPOST (\S+)\nX-Ottla-Console: 1\n\n(.*?)```", page, re.DOTALL)
    [told] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    with ottla.testing.broker() as broker, gateway_place(broker.bootstrap) as place:
        broker.create_topic("orders")
        place.produce("orders", 1, 2)
        reply = ConsoleCaller(place).ask("POST", asked[0].removeprefix(API), json.loads(asked[1]))
        for name, value in json.loads(told).items():
            assert reply.json[name] == value or (
                name == "command" and reply.json[name].startswith(value[:-3])
            )
