"""The board: states from events, rows and positions from batches, lag from the topics' ends."""

from __future__ import annotations

from ottla.spark.pipelines.events import FlowEvent
from ottla.spark.pipelines.flow_progress import Board, parse_offsets


def test_rows_add_up_over_updates_and_states_begin_anew() -> None:
    board = Board()
    board.note(FlowEvent("orders", "running"))
    board.progress("orders", 10, 5.0, {("t", 0): 10})
    board.progress("orders", 0, 0.0, {("t", 1): 4})
    board.note(FlowEvent("orders", "completed"))
    board.begin()
    board.progress("orders", 3, 1.0, {("t", 0): 13})

    (flow,) = board.flows()

    assert (flow.rows, flow.rows_in_update, flow.rows_per_s, flow.state) == (13, 3, 1.0, "queued")
    assert flow.position == {("t", 0): 13, ("t", 1): 4}
    assert board.topics() == {"t"}


def test_lag_is_what_lies_behind_the_position() -> None:
    board = Board()
    board.progress("orders", 1, None, {("t", 0): 10, ("t", 1): 5})
    board.note(FlowEvent("customers", "running"))
    board.measure({("t", 0): 25, ("t", 1): 3})

    assert [flow.behind for flow in board.flows()] == [15, None]


def test_a_failed_flow_does_not_complete_but_may_start_again() -> None:
    board = Board()
    board.note(FlowEvent("a", "failed", "why"))
    board.note(FlowEvent("a", "completed"))
    assert [(flow.state, flow.error) for flow in board.flows()] == [("failed", "why")]

    board.note(FlowEvent("a", "running"))
    board.note(FlowEvent("a", "completed"))
    assert [flow.state for flow in board.flows()] == ["completed"]


def test_offsets_are_read_and_those_of_other_sources_passed_over() -> None:
    texts = ['{"orders":{"0":23,"1":7}}', '{"logOffset":3}', "12", None, "-", '{"a":{"0":"x"}}']

    assert parse_offsets(texts) == {("orders", 0): 23, ("orders", 1): 7}
