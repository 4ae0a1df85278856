"""Three replicas under lost answers, new leaders, crashes and power losses: nothing committed is lost, and
all agree in the end (REP-3, REP-6, REP-8).
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.replication.model_cluster import NODES, ModelCluster


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_nothing_committed_is_lost_and_the_logs_agree_when_all_is_well(seed: int) -> None:
    cluster = ModelCluster(seed)
    for _ in range(400):
        cluster.act()
    committed = len(cluster.committed)
    cluster.heal()
    first, second, third = (node.log for node in cluster.nodes.values())
    ends = {log.log_end_offset for log in (first, second, third)}
    assert set(cluster.history[-1].isr) == set(NODES)
    assert len(ends) == 1
    assert {node.replica.high_watermark for node in cluster.nodes.values()} == ends
    start = max(log.log_start_offset for log in (first, second, third))
    for log in (second, third):
        assert log.read(start, 10**6) == first.read(start, 10**6)
    assert len(cluster.committed) > committed
