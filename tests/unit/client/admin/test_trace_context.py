"""The W3C trace context of a record, whoever wrote it."""

from __future__ import annotations

import pytest

from ottla.client.admin.trace_context import TraceContext, trace_context_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_a_traceparent_names_the_trace_the_span_and_whether_it_is_sampled() -> None:
    headers = [("other", None), ("Traceparent", f"00-{TRACE}-{SPAN}-01".encode()), ("tracestate", b"a=b")]
    assert trace_context_of(headers) == TraceContext(TRACE, SPAN, True, "a=b")
    assert trace_context_of([("traceparent", f"00-{TRACE}-{SPAN}-00".encode())]) == TraceContext(
        TRACE, SPAN, False
    )


def test_a_newer_version_may_have_more_fields() -> None:
    assert trace_context_of([("traceparent", f"01-{TRACE}-{SPAN}-01-more".encode())]) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-01",
    ],
)
def test_what_is_no_context_is_none(text: str) -> None:
    assert trace_context_of([("traceparent", text.encode())]) is None
    assert trace_context_of([("traceparent", b"\xff\xfe")]) is None
