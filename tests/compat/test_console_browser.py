"""The console in a real browser: every page, every action, wrong input, and trouble while one looks."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.compat.console_browser import Looker, browser, looking
from tests.integration.gateway_place import V2, GatewayPlace, gateway_place

import ottla
import ottla.testing
from ottla.localcluster.waiting import wait_until
from ottla.testing.embedded_cluster import EmbeddedCluster

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

PHONE = {"width": 390, "height": 780}
AVRO = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}],
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with ottla.testing.cluster(brokers=3) as started:
        for name, partitions in (("orders", 3), ("payments", 6), ("shipments", 3), ("orders.dead", 1)):
            started.create_topic(name, partitions=partitions)
        yield started


@pytest.fixture(scope="module")
def gateway(cluster: EmbeddedCluster) -> Iterator[GatewayPlace]:
    with gateway_place(cluster.bootstrap, listen="localhost:0", console="write") as place:
        fill(place)
        yield place


@pytest.fixture
def looker(chromium: Browser, gateway: GatewayPlace) -> Iterator[Looker]:
    with looking(chromium, gateway.port) as found:
        yield found


def fill(place: GatewayPlace) -> None:
    drinks = ("coffee", "tea", "water", "juice")
    records = [
        {
            "key": f"table {n % 7}",
            "value": {"drink": drinks[n % 4], "price": 2.5 + n % 5, "guest": {"name": "Ada"}},
        }
        for n in range(200)
    ]
    assert place.call("POST", "/topics/orders", {"records": records}).status == 200
    schema = {"schema": json.dumps(AVRO)}
    v1 = "application/vnd.schemaregistry.v1+json"
    assert place.call("POST", "/subjects/payments-value/versions", schema, content_type=v1).status == 200
    write_payments(place)
    headers = {"dead-letter.reason": "the price is no number", "dead-letter.topic": "orders",
               "dead-letter.partition": "1", "dead-letter.offset": "17"}  # fmt: skip
    for n in range(3):
        body = {
            "topic": "orders.dead",
            "key": f"table {n}",
            "value": {"drink": "tea", "price": "?"},
            "headers": headers,
        }
        sent = place.call("POST", "/console/api/actions/send-record", body, content_type="application/json", headers={"X-Ottla-Console": "1"})  # fmt: skip
        assert sent.status == 200, sent.body
    instance = place.instance("billing")
    place.call("POST", f"{instance}/subscription", {"topics": ["orders"]}, content_type=V2)
    wait_until(
        lambda: bool(place.call("GET", f"{instance}/records?timeout=3000&max_bytes=4000").json),
        "records come",
        60,
    )
    place.call("GET", f"{instance}/records?timeout=3000&max_bytes=4000")
    assert place.call("POST", f"{instance}/offsets", content_type=V2).status in (200, 204)


def write_payments(place: GatewayPlace) -> None:
    from ottla.serializers import AvroSerializer, Registry

    url = f"http://localhost:{place.port}"
    serialize = AvroSerializer(Registry(url), json.dumps(AVRO), topic="payments")
    from base64 import b64encode

    records = [{"value": b64encode(serialize({"id": n, "amount": n / 4})).decode()} for n in range(12)]
    binary = "application/vnd.kafka.binary.v2+json"
    assert place.call("POST", "/topics/payments", {"records": records}, content_type=binary).status == 200


# ---- pages


def test_home_says_that_all_is_well(looker: Looker, gateway: GatewayPlace, tmp_path: Path) -> None:
    looker.open()
    looker.title("Home")
    looker.see("All is well.")
    looker.see("ottla doctor --bootstrap")
    chart = looker.page.get_by_role("img", name=re.compile("Records a second: now [1-9]"))
    line = looker.page.locator(".chart path.line").first
    for n in range(90):  # until the chart has seen for a while that records are written
        gateway.produce("shipments", *range(40 + 37 * n % 90))
        if line.count() and (line.get_attribute("d") or "").count("L") > 4:
            break
        looker.page.wait_for_timeout(300)
    expect(chart).to_be_visible(timeout=60_000)
    looker.picture("home", tmp_path)


def test_topics_are_searched_and_opened(looker: Looker, tmp_path: Path) -> None:
    looker.open("topics")
    looker.title("Topics")
    expect(looker.page.get_by_role("row", name=re.compile("^orders 3 3 in sync 2"))).to_be_visible()
    looker.page.get_by_label("Search topics").fill("ship")
    expect(looker.page.get_by_role("row")).to_have_count(2)
    looker.page.get_by_label("Search topics").fill("<b>none</b>")
    looker.see("No topic has “<b>none</b>” in its name.")
    looker.page.get_by_label("Search topics").fill("")
    looker.page.get_by_role("link", name="payments", exact=True).click()
    looker.title("payments")


def test_a_topic_shows_partitions_settings_readers_and_writers(looker: Looker, tmp_path: Path) -> None:
    looker.open("topics/orders/partitions")
    expect(looker.page.get_by_role("table", name="Partitions").get_by_role("row")).to_have_count(4)
    looker.see("leads")
    looker.page.get_by_role("link", name="Settings").click()
    looker.page.get_by_label("Search settings").fill("retention.ms")
    expect(looker.page.get_by_role("row", name=re.compile("^retention.ms"))).to_be_visible()
    looker.page.get_by_role("link", name="Readers and writers").click()
    expect(looker.page.get_by_role("link", name="billing")).to_be_visible()
    looker.see("none open")


def test_records_are_found_and_one_is_shown(looker: Looker, tmp_path: Path) -> None:
    looker.open("topics/orders")
    rows = looker.page.get_by_role("table", name="Records of orders").get_by_role("row")
    expect(rows).to_have_count(51)
    looker.button("More").click()
    expect(rows).to_have_count(101)
    looker.page.get_by_label("Containing").fill("value.drink=coffee AND value.price=6.5")
    looker.page.keyboard.press("Enter")
    expect(rows).to_have_count(11)
    looker.picture("records", tmp_path)
    looker.page.get_by_role("combobox", name="From").select_option("offset")
    looker.page.get_by_role("spinbutton", name="Offset").fill("3")
    looker.page.get_by_role("spinbutton", name="Partition").fill("1")
    looker.page.get_by_label("Containing").fill("")
    looker.button("Search").click()
    expect(rows.nth(1)).to_contain_text("1@3")
    looker.page.get_by_role("link", name="1@3", exact=True).click()
    looker.see('"drink"')
    looker.page.get_by_text("Bytes").last.click()
    expect(looker.page.get_by_text("000000").last).to_be_visible()
    looker.page.get_by_role("link", name="Next").click()
    expect(looker.page.locator("dd").nth(7)).to_have_text("4")


def test_a_wrong_search_says_what_is_wrong(looker: Looker) -> None:
    looker.expected = ("status of 400",)
    looker.open("topics/orders")
    looker.page.get_by_label("Containing").fill("colour=red")
    looker.button("Search").click()
    expect(looker.page.get_by_role("alert")).to_contain_text('there is no field "colour"')


def test_values_with_a_schema_are_decoded(looker: Looker) -> None:
    looker.open("topics/payments")
    looker.see('"amount":2.75')
    looker.see("schema 1")
    looker.go("schemas")
    looker.page.get_by_role("link", name="payments-value").click()
    looker.see('"name": "Payment"')


def test_the_newest_record_of_each_key(looker: Looker) -> None:
    looker.open("topics/orders")
    looker.page.get_by_label("Newest of each key").check()
    looker.button("Search").click()
    expect(looker.page.get_by_role("table", name="Records of orders").get_by_role("row")).to_have_count(8)


def test_an_export_is_a_file_of_json_lines(looker: Looker) -> None:
    looker.open("topics/orders")
    with looker.page.expect_download() as waiting:
        looker.page.get_by_role("link", name="Export").click()
    file = waiting.value
    assert file.suggested_filename == "orders.jsonl"
    lines = Path(file.path()).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 200
    assert json.loads(lines[0])["topic"] == "orders"


def test_a_live_tail_shows_ten_thousand_records_in_a_bounded_table(
    looker: Looker, gateway: GatewayPlace, cluster: EmbeddedCluster
) -> None:
    cluster.create_topic("flood")
    looker.open("topics/flood")
    looker.button("Live tail").click()
    looker.see("Waiting for records…")
    for start in range(0, 10_000, 2_000):
        gateway.produce("flood", *({"n": n} for n in range(start, start + 2_000)))
    rows = looker.page.get_by_role("table", name="Records of flood").get_by_role("row")
    expect(rows.nth(1)).to_contain_text('{"n":9999}', timeout=60_000)
    assert rows.count() == 501
    looker.button("Stop the tail").click()
    looker.see("50 records of")


def test_a_group_shows_its_lag_and_its_members(looker: Looker, tmp_path: Path) -> None:
    looker.open("groups")
    looker.page.get_by_role("link", name="billing").click()
    looker.title("billing")
    expect(looker.page.get_by_role("table", name="Progress").get_by_role("row")).to_have_count(4)
    expect(looker.page.get_by_role("table", name="Members")).to_contain_text("orders: 0, 1, 2")
    expect(looker.page.get_by_role("img", name=re.compile("Records to read"))).to_be_visible(timeout=60_000)
    looker.picture("group", tmp_path)


def test_brokers_and_their_settings(looker: Looker, tmp_path: Path) -> None:
    looker.open("brokers")
    expect(looker.page.get_by_role("table", name="Brokers").get_by_role("row")).to_have_count(4)
    looker.see("Metadata quorum")
    looker.page.get_by_role("link", name="2", exact=True).click()
    looker.title("Broker 2")
    looker.see("node.id")
    looker.expected = ("status of 4",)  # topics with three replicas need the three brokers
    looker.button("Drain this broker").click()
    expect(looker.dialog().get_by_role("alert")).to_be_visible()
    looker.page.keyboard.press("Escape")
    looker.go("brokers")
    looker.see("No partition moves to another broker now.")
    looker.button("Spread replicas evenly").click()
    expect(
        looker.dialog().get_by_text(re.compile("to spread replicas evenly|are spread evenly"))
    ).to_be_visible()


def test_the_other_pages_and_a_page_that_is_not_there(looker: Looker) -> None:
    looker.open("transactions")
    looker.see("No transaction is open.")
    looker.go("rights")
    looker.see("This cluster checks no rights")
    looker.go("rights/users")
    looker.see("No user logs in with a password.")
    looker.go("rights/quotas")
    looker.see("There are no quotas.")
    looker.go("nowhere")
    looker.see("There is no such page")
    looker.expected = ("status of 404",)
    looker.go("topics/absent")
    expect(looker.page.get_by_role("alert").first).to_contain_text("there is no topic")


# ---- actions


def test_a_topic_is_created_filled_changed_and_deleted(looker: Looker, tmp_path: Path) -> None:
    looker.expected = (
        "status of 404",
        "status of 422",
    )  # wrong input, and the topic that is gone
    looker.open("topics")
    looker.button("New topic").click()
    looker.button("Show what would happen").click()
    expect(looker.dialog().get_by_role("alert")).to_contain_text('"topic" must be a text')
    looker.dialog().get_by_role("textbox", name="Name").fill("made-here")
    looker.dialog().get_by_role("spinbutton", name=re.compile("^Partitions")).fill("2")
    looker.button("Show what would happen").click()
    looker.see("Creates the topic made-here with 2 partitions.")
    looker.see("ottla topics create made-here --partitions 2")
    looker.button("Create the topic").click()
    looker.done("The topic made-here is created.")
    looker.page.get_by_role("link", name="made-here").click()
    looker.button("Send a record").click()
    looker.dialog().get_by_role("textbox", name=re.compile("^Key")).fill("k")
    looker.dialog().get_by_role("textbox", name=re.compile("^Value")).fill('{"a": 1}')
    looker.dialog().get_by_role("textbox", name=re.compile("^Headers")).fill("trace=x")
    looker.button("Show what would happen").click()
    looker.button("Send it").click()
    looker.done("Written to made-here")
    looker.see('{"a":1}')
    looker.page.get_by_role("link", name="Settings").click()
    looker.page.get_by_label("Search settings").fill("retention.ms")
    looker.page.get_by_role("row", name=re.compile("^retention.ms")).get_by_role(
        "button", name="Change"
    ).click()
    looker.dialog().get_by_role("textbox").fill("86400000")
    looker.button("Show what would happen").click()
    looker.button("Change it").click()
    looker.done("1 setting of made-here changed.")
    expect(
        looker.page.get_by_role("row", name=re.compile("^retention.ms 86400000 this topic"))
    ).to_be_visible()
    looker.button("More partitions").click()
    looker.button("Show what would happen").click()
    looker.see("a topic cannot shrink again")
    looker.button("Let it grow").click()
    looker.done("made-here has 3 partitions.")
    looker.button("Delete topic").click()
    looker.see("Deletes the topic made-here for good: 3 partitions with 1 record.")
    expect(looker.button("Delete the topic")).to_be_disabled()
    looker.picture("delete", tmp_path)
    looker.dialog().get_by_role("textbox").fill("made-here")
    looker.button("Delete the topic").click()
    looker.title("Topics")
    expect(looker.page.get_by_role("link", name="made-here")).to_have_count(0)


def test_a_group_is_moved_with_a_preview_and_refused_while_it_has_members(looker: Looker) -> None:
    looker.expected = ("status of 409",)
    looker.open("groups/billing")
    looker.button("Move offsets").click()
    looker.dialog().get_by_role("combobox").select_option("to-latest")
    looker.button("Show what would happen").click()
    looker.see("Moves billing in")
    looker.see("ottla groups reset-offsets billing --all-topics --to-latest --execute")
    looker.button("Move the group").click()
    expect(looker.dialog().get_by_role("alert")).to_be_visible()
    looker.page.keyboard.press("Escape")
    expect(looker.dialog()).to_have_count(0)


def test_a_dead_letter_is_corrected_and_sent_back(looker: Looker, tmp_path: Path) -> None:
    looker.open("topics/orders.dead")
    looker.see("the price is no number")
    looker.picture("dead-letters", tmp_path)
    for place in ("0@0", "0@1"):
        looker.page.get_by_label(f"Choose {place}").check()
    looker.button("Redrive 2 records").click()
    looker.button("Show what would happen").click()
    looker.see("Sends 2 dead letters to orders")
    looker.button("Send them").click()
    looker.done("2 records sent to orders.")
    looker.page.get_by_role("link", name="0@2").click()
    looker.button("Edit and redrive").click()
    looker.dialog().get_by_role("textbox", name=re.compile("^Value")).fill('{"drink": "tea", "price": 2}')
    looker.button("Show what would happen").click()
    looker.button("Send it").click()
    looker.done("1 record sent to orders.")
    looker.go("topics/orders")
    looker.see('{"drink":"tea","price":2}')


async def _held_open(bootstrap: str, ready: asyncio.Event, over: asyncio.Event) -> None:
    try:
        async with (
            ottla.Producer(bootstrap, transactional_id="slow-billing") as producer,
            producer.transaction(),
        ):
            await producer.send("shipments", b"{}", partition=0)
            ready.set()
            await over.wait()
    except ottla.KafkaError:
        pass  # it was aborted


def test_a_transaction_that_holds_readers_back_is_aborted(
    looker: Looker, gateway: GatewayPlace, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    over: list[asyncio.Event] = []

    async def begin() -> asyncio.Task[None]:
        ready, end = asyncio.Event(), asyncio.Event()
        over.append(end)
        task = asyncio.create_task(_held_open(cluster.bootstrap, ready, end))
        await ready.wait()
        return task

    async def ended(task: asyncio.Task[None]) -> None:
        over[0].set()
        await task

    task = gateway.thread.run(begin, 60)
    try:
        looker.open("transactions")
        expect(looker.page.get_by_role("table", name="Readers that wait")).to_contain_text("shipments")
        looker.button("Abort").click()
        looker.see("readers of committed records never see what it wrote")
        looker.dialog().get_by_role("textbox").fill("slow-billing")
        looker.button("Abort it").click()
        looker.done("The transaction of slow-billing is aborted.")
        looker.see("No transaction is open.")
    finally:
        gateway.thread.run(lambda: ended(task), 60)


# ---- keys, widths, colours, sizes


def test_everything_can_be_reached_by_keys(looker: Looker) -> None:
    looker.open()
    looker.see("All is well.")
    page = looker.page
    page.keyboard.press("g")
    page.keyboard.press("t")
    looker.title("Topics")
    page.keyboard.press("/")
    page.keyboard.type("payments")
    expect(page.get_by_role("table", name="Topics").get_by_role("row")).to_have_count(2)
    page.keyboard.press("Escape")
    while page.evaluate("document.activeElement.textContent") != "payments":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    looker.title("payments")
    expect(page.get_by_role("heading", level=1)).to_be_focused()  # a screen reader says where it is
    page.keyboard.press("?")
    looker.see("These keys")
    page.keyboard.press("Escape")
    expect(looker.dialog()).to_have_count(0)


def test_every_control_has_a_name_and_every_page_one_title(looker: Looker) -> None:
    unnamed = """() => [...document.querySelectorAll('button, input, select, textarea, a')].filter(each =>
        !(each.textContent.trim() || each.getAttribute('aria-label') || each.labels?.length)).map(each => each.outerHTML)"""
    for place in (
        "",
        "topics",
        "topics/orders",
        "groups",
        "groups/billing",
        "brokers",
        "transactions",
        "rights",
    ):
        looker.open(place)
        expect(looker.page.get_by_role("heading", level=1)).to_have_count(1)
        expect(looker.page.locator(".waiting")).to_have_count(0)
        assert looker.page.evaluate(unnamed) == [], place


def test_a_phone_shows_every_page_without_scrolling_sideways(
    chromium: Browser, gateway: GatewayPlace, tmp_path: Path
) -> None:
    with looking(chromium, gateway.port, dark=True, **PHONE) as looker:
        for place in (
            "topics",
            "topics/orders/settings",
            "groups/billing",
            "brokers",
            "transactions",
            "topics/orders",
        ):
            looker.open(place)
            expect(looker.page.locator(".waiting")).to_have_count(0)
            expect(looker.page.locator("table, .empty").first).to_be_visible()
            assert looker.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], place
        looker.picture("phone", tmp_path)


def test_dark_and_light_are_remembered(looker: Looker, tmp_path: Path) -> None:
    looker.open("groups")
    light = looker.page.evaluate("getComputedStyle(document.body).backgroundColor")
    looker.page.get_by_label("Colours").select_option("dark")
    expect(looker.page.locator("html")).to_have_attribute("data-theme", "dark")
    assert looker.page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    looker.page.reload()
    expect(looker.page.locator("html")).to_have_attribute("data-theme", "dark")
