"""MetricsData is read as OpenTelemetry's own Protobuf classes write it, and nonsense is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb

from ottla.telemetry.clients.otlp_metrics import MOST_POINTS, MalformedMetricsError, MetricsReader, Point


def payload(*metrics: Any) -> bytes:
    scope = pb.ScopeMetrics(metrics=metrics)
    data = pb.MetricsData(resource_metrics=[pb.ResourceMetrics(scope_metrics=[scope], schema_url="ignored")])
    written: bytes = data.SerializeToString()
    return written


def read(data: bytes) -> MetricsReader:
    reader = MetricsReader()
    for _ in reader.read(data):
        pass
    return reader


def attribute(key: str, value: Any) -> Any:
    return KeyValue(key=key, value=value)


def test_gauges_and_sums_have_their_value_unit_and_attributes() -> None:
    attributes = [
        attribute("node.id", AnyValue(string_value="1")),
        attribute("is_on", AnyValue(bool_value=True)),
        attribute("below", AnyValue(int_value=-3)),
        attribute("share", AnyValue(double_value=0.5)),
        attribute("list", AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1)]))),
    ]
    gauge = pb.Metric(
        name="latency.avg",
        unit="ms",
        description="not kept",
        gauge=pb.Gauge(data_points=[pb.NumberDataPoint(as_double=2.5, attributes=attributes)]),
    )
    total = pb.Metric(
        name="sent",
        sum=pb.Sum(
            data_points=[pb.NumberDataPoint(as_int=-7), pb.NumberDataPoint(as_int=8)], is_monotonic=True
        ),
    )
    shown = (("node.id", "1"), ("is_on", "true"), ("below", "-3"), ("share", "0.5"), ("list", ""))
    assert read(payload(gauge, total)).points == [
        Point("latency.avg", "gauge", "ms", shown, 2.5),
        Point("sent", "sum", "", (), -7),
        Point("sent", "sum", "", (), 8),
    ]


def test_histograms_and_summaries_have_a_sum_and_a_number_of_observations() -> None:
    labels = [attribute("a", AnyValue(string_value="b"))]
    plain = pb.HistogramDataPoint(
        count=3, sum=4.5, bucket_counts=[1, 2], explicit_bounds=[1.0], attributes=labels, min=1, max=2
    )
    exponential = pb.ExponentialHistogramDataPoint(count=2, sum=1.5, attributes=labels)
    summary = pb.SummaryDataPoint(count=9, sum=2.0, attributes=labels)
    points = read(
        payload(
            pb.Metric(name="h", histogram=pb.Histogram(data_points=[plain])),
            pb.Metric(name="e", exponential_histogram=pb.ExponentialHistogram(data_points=[exponential])),
            pb.Metric(name="s", summary=pb.Summary(data_points=[summary])),
            pb.Metric(name="nothing"),
        )
    ).points
    of = (("a", "b"),)
    assert points == [
        Point("h", "histogram", "", of, 4.5, 3),
        Point("e", "histogram", "", of, 1.5, 2),
        Point("s", "summary", "", of, 2.0, 9),
    ]


def test_numbers_beyond_the_limit_are_counted_and_long_texts_are_cut() -> None:
    many = pb.Gauge(data_points=[pb.NumberDataPoint(as_int=number) for number in range(MOST_POINTS + 5)])
    reader = read(payload(pb.Metric(name="x" * 5000, gauge=many)))
    assert (len(reader.points), reader.hidden) == (MOST_POINTS, 5)
    assert reader.points[0].name == "x" * 200


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x05\x01",  # a message that ends too early
        b"\x08\x01\x08",  # a number without its value
        b"\x0b",  # a group, which has no length
        b"\xff" * 11,  # a number that does not end
        b"\x0a\x04\x12\x02\x10\x01",  # a number where a metric should be
        b"\x08\x00" * 100_001,  # too many fields
    ],
)
def test_what_is_no_metrics_data_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMetricsError):
        read(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read(b"\x0a" + bytes([len(data) & 127]) + data)
    except MalformedMetricsError:
        return


def test_many_fields_that_say_nothing_leave_room_for_other_work() -> None:
    assert sum(1 for _ in MetricsReader().read(b"\x10\x00" * 5000)) >= 5000
