"""The loads of brokers, as the load-aware partitioner reads them (PRO-1)."""

from __future__ import annotations

from ottla.client.producer.broker_loads import relative_loads


def test_each_number_counts_in_relation_to_the_largest_of_its_name() -> None:
    reports = {1: {"cpu": 80.0, "bytes": 100.0}, 2: {"cpu": 40.0, "bytes": 0.0}, 3: {"cpu": 0.0}}
    assert relative_loads(reports) == {1: 1.0, 2: 0.25, 3: 0.0}


def test_brokers_that_report_nothing_are_left_out() -> None:
    assert relative_loads({1: {}, 2: {"cpu": 5.0}}) == {2: 1.0}
    assert relative_loads({1: {"cpu": 0.0}}) == {1: 0.0}
    assert relative_loads({}) == {}
