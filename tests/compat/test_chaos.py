"""Short killing tests: with the Java client among the clients, secured, with transactions, and on machines of their own
(root).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench.apache.maven import CannotFetchError
from tests.chaos.faults import TRANSACTION_KINDS
from tests.chaos.java_workload import JOURNALS, compiled
from tests.chaos.machines.commands import NoMachinesError
from tests.chaos.machines.faults import FLUSHED_KINDS
from tests.chaos.report import page
from tests.chaos.run import Options, run, short_options
from tests.chaos.secured_faults import SECURE_KINDS
from tests.chaos.transactions.report import page as transactions_page
from tests.chaos.transactions.run import run as run_transactions


def test_a_cluster_that_is_broken_ten_times_keeps_its_promises_to_java(tmp_path: Path) -> None:
    try:
        compiled()
    except CannotFetchError as reason:
        pytest.skip(f"NO JAVA CLIENT: {reason}")
    report = run(tmp_path, short_options(with_java=True), print)
    print(page(report, "under test"))
    assert report.is_clean
    histories = {history.client: history.events for history in report.histories}
    assert all(histories[client] for client in JOURNALS)


TRANSACTION_FAULTS = (
    "kill -9 a transaction coordinator",
    "kill -9 a leader",
    "pause a transaction coordinator",
    "isolate a leader",
    "kill -9 all at once",
)


@pytest.mark.timeout(400)
def test_a_secured_cluster_keeps_its_promises_while_passwords_certificates_and_rights_change(
    tmp_path: Path,
) -> None:
    """A broker's certificate expires, others are renewed, a password changes, a right goes."""
    names = (
        "change a password",
        "renew all certificates",
        "the certificate of a leader expires",
        "revoke a right",
        "isolate a leader",
        "kill -9 the controller",
    )
    kinds = {name: SECURE_KINDS[name] for name in names}
    options = replace(short_options(), faults=len(kinds), kinds=kinds, is_secure=True)
    report = run(tmp_path, options, print)
    print(page(report, "under test"))
    assert report.is_clean
    assert {each.fault.kind for each in report.injected} == set(names)
    assert report.counts.acked == report.counts.sent > 500


def test_a_cluster_that_is_broken_five_times_keeps_its_promises_to_transactions(tmp_path: Path) -> None:
    try:
        compiled()
    except CannotFetchError as reason:
        pytest.skip(f"NO JAVA CLIENT: {reason}")
    options = Options(
        faults=len(TRANSACTION_FAULTS),
        with_java=True,
        seed=5,
        partitions=3,
        kinds={name: TRANSACTION_KINDS[name] for name in TRANSACTION_FAULTS},
        most_s=1.0,
        settings={"group.initial.rebalance.delay.ms": "0"},
    )
    report = run_transactions(tmp_path, options, print)
    print(transactions_page(report, "under test"))
    assert report.is_clean
    assert report.transactions["committed"] > 20
    journal = (tmp_path / "journals" / "java-writer.journal").read_text(encoding="utf-8")
    assert "COMMITTED" in journal


MACHINE_KINDS = (
    "power of a leader lost",
    "power of the controller lost",
    "power of all lost",
    "disk of a leader lost",
    "file system of a leader full",
    "packets lost",
    "cut one way",
    "isolate the controller",
)


def test_machines_that_lose_power_packets_and_disks_keep_their_promises(tmp_path: Path) -> None:
    options = Options(
        faults=len(MACHINE_KINDS),
        seed=3,
        partitions=3,
        kinds={name: FLUSHED_KINDS[name] for name in MACHINE_KINDS},
        most_s=2.0,
        settings={"ottla.flush.on.acks.all": "true"},
        on_machines=True,
    )
    try:
        report = run(tmp_path, options, print)
    except NoMachinesError as reason:
        pytest.skip(f"NO MACHINES: {reason}")
    print(page(report, "under test"))
    assert report.is_clean
    assert report.counts.acked == report.counts.sent
