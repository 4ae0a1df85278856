"""The measurement of a coordinator's failover still runs: a few transactions, one round; nothing is judged but that
it measures.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from bench.coordinator_failover import COMMITTED, Measured, ids_of_one_partition, measure, page
from bench.failover_targets import ottla


@pytest.mark.timeout(200)
def test_one_round_measures_everything(tmp_path: Path) -> None:
    found: Measured = defaultdict(lambda: defaultdict(list))
    with ottla(tmp_path / "c") as cluster:
        measure(cluster, COMMITTED, 1, found)
    assert len(found) == 4
    assert all(0 < seconds < 120 for by_cluster in found.values() for seconds in by_cluster["ottla"])
    assert found["until the first is described"]["ottla"] <= found["until all are described"]["ottla"]
    assert "until all are described" in "\n".join(page(found, COMMITTED, 1, ["here"]))


def test_all_ids_belong_to_one_partition() -> None:
    ids = list(ids_of_one_partition(20, 3))
    assert len(set(ids)) == 20
