"""A short killing test; `make chaos` is the long one, and `make compat` adds the Java client (REP-8,
CHK-2).
"""

from __future__ import annotations

from pathlib import Path

from tests.chaos.faults import Fault
from tests.chaos.history import Acked, History
from tests.chaos.report import page
from tests.chaos.run import Injected, interruptions, run, short_options


def test_a_cluster_that_is_broken_ten_times_keeps_its_promises(tmp_path: Path) -> None:
    report = run(tmp_path, short_options(), print)
    print(page(report, "under test"))
    assert report.is_clean
    assert report.counts.acked > 500
    assert report.counts.acked == report.counts.sent


def test_an_interruption_is_the_longest_silence_of_any_partition_during_a_fault() -> None:
    second = 1_000_000_000
    acks = [(0, 0), (1, 0), (6, 0), (7, 0), (0, 1), (4, 1), (7, 1), (20, 1)]
    history = History("p", [Acked(at * second, partition, 0, "v") for at, partition in acks])
    fault = Fault(1, "kill -9 a leader", 0, 0, 0.0, True)
    faults = [
        Injected(fault, "", begin * second, end * second, None) for begin, end in [(2, 5), (8, 9), (30, 31)]
    ]
    assert interruptions([history], faults) == [5.0, 13.0, 0.0]
