"""The short killing test with the Java client among the clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.apache.maven import CannotFetchError
from tests.chaos.java_workload import JOURNALS, compiled
from tests.chaos.report import page
from tests.chaos.run import run, short_options


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
