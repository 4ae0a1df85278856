"""The console in a real browser when there is much to see, little allowed, or something breaks."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect
from tests.compat.console_browser import browser, looking
from tests.integration.gateway_place import gateway_place
from tests.integration.test_console_local_cluster import ottla as ottla_command

import ottla
import ottla.blocking
import ottla.testing
from ottla.localcluster.waiting import wait_until
from ottla.security.acl.rules import AclFilter, PatternType, ResourceType
from ottla.testing.embedded_broker import EmbeddedBroker

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker() as started:
        started.create_topic("orders")
        yield started


def test_a_console_that_only_reads_shows_the_command_instead(
    chromium: Browser, broker: EmbeddedBroker
) -> None:
    with (
        gateway_place(broker.bootstrap, listen="localhost:0") as place,
        looking(chromium, place.port) as looker,
    ):
        looker.open("topics/orders")
        looker.see("Only reads")
        looker.button("Delete topic").click()
        looker.see("this console only reads")
        looker.see("ottla topics delete orders --bootstrap")
        expect(looker.button("Delete the topic")).to_be_disabled()


def synthetic(route: Route) -> None:
    """The API of a cluster with 2,000 topics of five partitions, and one with ten thousand."""
    query = dict(each.split("=") for each in route.request.url.partition("?")[2].split("&") if each)
    page, path = int(query.get("page", 1)), route.request.url.partition("?")[0]
    if path.endswith("/topics"):
        rows = [
            {"name": f"topic-{n:04}", "is_internal": False, "partition_count": 5, "replication_factor": 3,
             "leaderless": 0, "under_replicated": 0}
            for n in range((page - 1) * 50, page * 50)
        ]  # fmt: skip
        body = {"topics": rows, "total": 2_000, "page": page, "pages": 40, "per_page": 50, "command": "ottla"}
    elif path.endswith("/topics/wide"):
        per = int(query.get("per_page", 500))
        rows = [
            {"partition": n, "leader": 1, "replicas": [{"broker": b, "in_sync": True, "is_offline": False} for b in (1, 2, 3)],
             "start": 0, "end": n, "bytes": n}
            for n in range((page - 1) * per, page * per)
        ]  # fmt: skip
        facts = {"total": 10_000, "page": page, "pages": 10_000 // per, "per_page": per}
        body = {"name": "wide", "partition_count": 10_000, "replication_factor": 3, "leaderless": 0,
                "under_replicated": 0, "records": 1, "bytes": 1, "records_per_s": 0, "rows": rows, "pages": facts,
                "command": "ottla"}  # fmt: skip
    else:
        body = {"figures": {}}
    route.fulfill(json=body)


def test_a_large_cluster_stays_usable(chromium: Browser, broker: EmbeddedBroker) -> None:
    with (
        gateway_place(broker.bootstrap, listen="localhost:0") as place,
        looking(chromium, place.port) as looker,
    ):
        looker.page.route(re.compile("/console/api/(topics|topic-figures)"), synthetic)
        began = time.monotonic()
        looker.open("topics")
        looker.see("1\u201350 of 2,000 topics")
        assert time.monotonic() - began < 20  # a second on a machine with nothing else to do
        for _ in range(3):
            looker.button("Next").click()
        looker.see("151\u2013200 of 2,000 topics")
        looker.go("topics/wide/partitions")
        looker.see("1\u2013500 of 10,000 partitions")
        looker.button("Next").click()
        looker.see("501\u20131,000 of 10,000 partitions")
        assert looker.page.evaluate("document.querySelectorAll('*').length") < 12_000


def test_a_login_is_asked_for_and_a_revoked_right_is_seen(chromium: Browser) -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
    }
    alice = ottla.Acl(ottla.Pattern(ResourceType.TOPIC, "guarded"), "User:alice", "*", ottla.Operation.ALL)
    with ottla.testing.broker(settings=settings, users={"alice": "secret-a", "root": "secret-r"}) as broker:
        broker.create_topic("guarded")
        broker.allow(alice)
        with gateway_place(
            broker.bootstrap, listen="localhost:0", requires_login=True, login_mechanism="SCRAM-SHA-256"
        ) as place, looking(chromium, place.port) as looker:  # fmt: skip
            looker.expected = ("status of 401", "status of 403", "status of 404")
            looker.open("topics")
            looker.title("Log in")
            looker.page.get_by_label("User").fill("alice")
            looker.page.get_by_label("Password").fill("wrong")
            looker.button("Log in").click()
            expect(looker.page.get_by_role("alert")).to_be_visible()
            looker.page.get_by_label("Password").fill("secret-a")
            looker.button("Log in").click()
            looker.title("Topics")
            looker.page.get_by_role("link", name="guarded").click()
            looker.title("guarded")
            place.thread.run(lambda: _revoke(broker.bootstrap, broker.security("root")), 60)
            looker.go("topics/guarded/partitions")
            expect(looker.page.get_by_role("alert").first).to_be_visible()
            looker.button("Log out").click()
            looker.title("Log in")


async def _revoke(bootstrap: str, security: ottla.Security) -> None:
    async with ottla.Admin(bootstrap, security=security) as admin:
        ottla.succeeded(await admin.delete_acls([AclFilter(principal="User:alice")]))


def test_a_broker_that_dies_while_one_looks_is_told_and_what_was_known_stays(chromium: Browser) -> None:
    with ottla.testing.cluster(brokers=3) as cluster:
        cluster.create_topic("watched", partitions=3)
        with gateway_place(
            cluster.bootstrap, listen="localhost:0", cluster_timeout_ms=3_000
        ) as place, looking(chromium, place.port) as looker:  # fmt: skip
            looker.expected = ("status of 503",)
            looker.open()
            looker.see("All is well.")
            victim = next(each for each in (1, 2, 3) if each != cluster.controller_id)
            cluster.kill(victim)
            expect(looker.page.get_by_role("status").filter(has_text="need a hand")).to_be_visible(
                timeout=90_000
            )
            looker.see("are not in sync")
            looker.go("brokers")
            expect(looker.page.get_by_role("row", name=re.compile(f"^{victim} down"))).to_be_visible(
                timeout=60_000
            )
            looker.go("topics/watched/partitions")
            looker.see(f"{victim} down")
            for each in cluster.running:
                cluster.kill(each)
            expect(looker.page.get_by_role("alert").first).to_contain_text(
                "cannot be reached", timeout=60_000
            )
            looker.see("Shown is what was known at")
            expect(looker.page.get_by_role("table", name="Partitions")).to_be_visible()


def test_a_groups_members_are_removed_and_the_group_moved_and_deleted(
    chromium: Browser, broker: EmbeddedBroker
) -> None:
    with ottla.blocking.Consumer(broker.bootstrap, group_id="visitors") as consumer, gateway_place(
        broker.bootstrap, listen="localhost:0", console="write"
    ) as place, looking(chromium, place.port) as looker:  # fmt: skip
        consumer.subscribe(["orders"])
        consumer.poll(timeout_ms=500)
        wait_until(lambda: bool(consumer.assignment), "the member has its partitions", 60)
        looker.open("groups/visitors")
        looker.button("Remove all members").click()
        looker.see("Removes 1 member from visitors")
        looker.see("ottla groups remove-members visitors --all")
        looker.button("Remove them").click()
        looker.done("1 member removed from visitors.")
        consumer.close()
        first = ottla.TopicPartition("orders", 0)
        with ottla.blocking.Admin(broker.bootstrap) as admin:
            ottla.succeeded(admin.alter_group_offsets("visitors", {first: ottla.CommittedOffset(0)}))
        looker.page.reload()
        expect(looker.page.get_by_role("table", name="Progress")).to_contain_text("orders")
        looker.button("Move offsets").click()
        looker.dialog().get_by_role("combobox").select_option("to-latest")
        looker.button("Show what would happen").click()
        looker.see("0 records will be read again")
        looker.button("Move the group").click()
        looker.done("visitors continues at other offsets in 1 partition.")
        looker.button("Delete group").click()
        looker.see("Deletes the group visitors for good, with its committed offsets of 1 partition.")
        looker.dialog().get_by_role("textbox").fill("visitors")
        looker.button("Delete the group").click()
        looker.title("Groups")
        expect(looker.page.get_by_role("link", name="visitors")).to_have_count(0)


def test_rules_users_and_quotas_are_searched_and_shown(chromium: Browser) -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
    }
    prefixed = ottla.Pattern(ResourceType.TOPIC, "shop-", PatternType.PREFIXED)
    rules = [
        ottla.Acl(prefixed, "User:alice", "*", ottla.Operation.WRITE),
        ottla.Acl(ottla.Pattern(ResourceType.GROUP, "billing"), "User:bob", "*", ottla.Operation.READ),
    ]
    with ottla.testing.broker(settings=settings, users={"alice": "secret-a", "root": "secret-r"}) as broker:
        for rule in rules:
            broker.allow(rule)
        with ottla.blocking.Admin(broker.bootstrap, security=broker.security("root")) as admin:
            limited = ottla.QuotaEntity(user="alice")
            ottla.succeeded(admin.alter_quotas({limited: {"producer_byte_rate": 1_000_000.0}}))
            ottla.succeeded(admin.alter_users([ottla.ScramPassword("carol", "secret-c")]))
        with gateway_place(
            broker.bootstrap, listen="localhost:0", requires_login=True, login_mechanism="SCRAM-SHA-256"
        ) as place, looking(chromium, place.port) as looker:  # fmt: skip
            looker.expected = ("status of 401",)
            looker.open("rights")
            looker.page.get_by_label("User").fill("root")
            looker.page.get_by_label("Password").fill("secret-r")
            looker.button("Log in").click()
            looker.title("Users and rights")
            table = looker.page.get_by_role("table", name="Rules")
            expect(table.get_by_role("row")).to_have_count(3)
            looker.page.get_by_label("Search rules").fill("bob")
            expect(table.get_by_role("row")).to_have_count(2)
            expect(table).to_contain_text("may")
            expect(table).to_contain_text("group billing")
            looker.see("ottla acls list --bootstrap")
            looker.page.get_by_role("link", name="Users", exact=True).click()
            expect(looker.page.get_by_role("table", name="Users")).to_contain_text("carol")
            expect(looker.page.get_by_role("table", name="Users")).not_to_contain_text("secret")
            looker.page.get_by_role("link", name="Quotas", exact=True).click()
            expect(looker.page.get_by_role("table", name="Quotas")).to_contain_text(
                "producer_byte_rate 1,000,000"
            )


def test_the_brokers_of_a_local_cluster_are_stopped_killed_and_started(
    chromium: Browser, tmp_path: Path
) -> None:
    data = tmp_path / "cluster"
    up = ("cluster", "up", "--data", str(data), "--brokers", "3", "--port", "0", "--memory", "--detach")
    said = ottla_command(*up, "--gateway", "localhost:0", "--console-writes")
    try:
        found = re.search(r"The console is at http://localhost:(\d+)/console", said)
        assert found is not None, said
        with looking(chromium, int(found[1])) as looker:
            looker.expected = ("status of 503",)  # while a broker stands still
            looker.open("brokers")
            looker.button("Pause broker 3").click()
            looker.see("Lets broker 3 stand still, as if its machine hung.")
            looker.see("ottla cluster pause 3 --data")
            looker.dialog().get_by_role("button", name="Pause broker 3").click()
            looker.done("Broker 3 stands still.")
            looker.button("Resume broker 3").click()
            looker.dialog().get_by_role("button", name="Resume broker 3").click()
            looker.done("Broker 3 goes on.")
            expect(looker.button("Pause broker 3")).to_be_visible(timeout=60_000)
            looker.button("Kill broker 3").click()
            looker.dialog().get_by_role("textbox").fill("broker 3")
            expect(looker.dialog().get_by_role("button", name="Kill broker 3")).to_be_enabled()
            looker.dialog().get_by_role("button", name="Kill broker 3").click()
            looker.done("Broker 3")
            looker.button("Start broker 3").click()
            looker.dialog().get_by_role("button", name="Start broker 3").click()
            looker.done("Broker 3")
            expect(looker.page.get_by_role("row", name=re.compile("^3 alive"))).to_be_visible(timeout=60_000)
    finally:
        ottla_command("cluster", "down", "--data", str(data))
