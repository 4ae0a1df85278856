"""Spark's lines about flows, and what they mean."""

from __future__ import annotations

import pytest

from ottla.spark.pipelines.events import FlowEvent, parse_event, short_name


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("Flow spark_catalog.default.orders is QUEUED.", FlowEvent("orders", "queued")),
        ("Flow spark_catalog.default.orders is RUNNING.", FlowEvent("orders", "running")),
        ("Flow dead_letters has COMPLETED.", FlowEvent("dead_letters", "completed")),
        ("Flow 'spark_catalog.default.a' has FAILED.\nError: oops", FlowEvent("a", "failed", "Error: oops")),
        ("Flow 'c.d.a' SKIPPED due to upstream failure(s).", FlowEvent("a", "skipped")),
        (
            "Flow 'c.d.a' has been processed by a previous iteration and will not be rerun.",
            FlowEvent("a", "skipped"),
        ),
        ("Flow 'c.d.a' is IDLE, waiting for new data.", FlowEvent("a", "idle")),
        ("Flow 'c.d.a' is EXCLUDED.", FlowEvent("a", "excluded")),
        ("Failed to resolve flow: 'c.d.a'.\nno such column", FlowEvent("a", "failed", "no such column")),
        ("Failed to resolve flow due to upstream failure: 'c.d.a'.", FlowEvent("a", "skipped")),
        ("Run is COMPLETED.", None),
        ("Flow a is LEVITATING.", None),
    ],
)
def test_a_line_says_which_flow_is_in_which_state(line: str, event: FlowEvent | None) -> None:
    assert parse_event(line) == event


def test_a_flow_is_called_by_its_last_name() -> None:
    assert short_name("`spark_catalog`.`default`.`orders`") == "orders"
    assert short_name("orders") == "orders"
