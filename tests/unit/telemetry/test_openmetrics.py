"""The text of metrics, read by the parsers of prometheus_client (OPS-2)."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from ottla.telemetry.families import (
    Exemplar,
    Family,
    Kind,
    Sample,
    counter,
    counters,
    gauge,
    gauges,
    histograms,
)
from ottla.telemetry.histogram import Histogram
from ottla.telemetry.openmetrics import accepts_openmetrics, exposition

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


def parsed(*families: Family, openmetrics: bool) -> dict[str, Any]:
    parse = parse_openmetrics if openmetrics else parse_prometheus
    text = "".join(exposition(families, openmetrics=openmetrics))
    return {family.name: family for family in parse(text)}


def values(family: Any) -> dict[tuple[str, ...], float]:
    return {(sample.name, *sample.labels.values()): sample.value for sample in family.samples}


@given(TEXTS, TEXTS, st.floats() | st.integers(-(2**53), 2**53), st.booleans())
def test_any_label_and_any_number_comes_back_as_it_was(
    label: str, about: str, value: float, openmetrics: bool
) -> None:
    # A parser splits lines where Python does; metrics have line ends of one kind only.
    if not openmetrics:
        label = label.replace("\r", "")
    family = gauges("depth", about, [((("topic", label), ("partition", "0")), value)])
    (sample,) = parsed(family, openmetrics=openmetrics)["depth"].samples
    assert sample.labels == {"topic": label, "partition": "0"}
    assert sample.value == value or (math.isnan(sample.value) and math.isnan(value))


def test_counters_gauges_units_and_information_in_both_formats() -> None:
    def families() -> tuple[Family, ...]:
        return (
            counter("sent_bytes", "Bytes sent.", 7, unit="bytes"),
            counters("errors", "Errors.", [((("code", "A"),), 1), ((("code", "B"),), 2)]),
            gauge("open", "Whether it is open.", True),
            Family("build", Kind.INFO, "The version.", [Sample((("version", "1"),), 1, "_info")]),
        )

    for openmetrics in (True, False):
        found = parsed(*families(), openmetrics=openmetrics)
        assert values(found["sent_bytes"]) == {("sent_bytes_total",): 7}
        assert values(found["errors"]) == {("errors_total", "A"): 1, ("errors_total", "B"): 2}
        assert values(found["open"]) == {("open",): 1}
    of_openmetrics = parsed(*families(), openmetrics=True)
    assert of_openmetrics["sent_bytes"].unit == "bytes"
    assert of_openmetrics["build"].type == "info"
    assert found["build_info"].type == "gauge"


def test_a_histogram_has_cumulated_buckets_in_seconds_and_its_sum() -> None:
    histogram = Histogram([10, 20, 1_000_000, 400_000_000])
    for openmetrics in (True, False):
        family = histograms("wait_seconds", "Waiting.", [((("api", "FETCH"),), histogram, None)])
        found = parsed(family, openmetrics=openmetrics)["wait_seconds"]
        assert found.type == "histogram"
        rows = values(found)
        assert rows["wait_seconds_bucket", "FETCH", "1.6e-05"] == 1
        assert rows["wait_seconds_bucket", "FETCH", "3.2e-05"] == 2
        assert rows["wait_seconds_bucket", "FETCH", "1.048576"] == 3
        assert rows["wait_seconds_bucket", "FETCH", "67.108864"] == 3
        assert rows["wait_seconds_bucket", "FETCH", "+Inf"] == rows["wait_seconds_count", "FETCH"] == 4
        assert rows["wait_seconds_sum", "FETCH"] == 401.00003


def test_an_exemplar_stands_at_the_bucket_of_its_value_and_only_in_openmetrics() -> None:
    for value_s, bound in ((0.00003, "3.2e-05"), (100.0, "+Inf")):
        exemplar = Exemplar((("waiting_us", "9"),), value_s, 1_700_000_000.5)
        shown = [((), Histogram([int(value_s * 1_000_000)]), exemplar)]
        found = parsed(histograms("wait_seconds", "Waiting.", shown), openmetrics=True)["wait_seconds"]
        (sample,) = [each for each in found.samples if each.exemplar is not None]
        assert sample.labels["le"] == bound
        assert sample.exemplar.labels == {"waiting_us": "9"}
        assert (sample.exemplar.value, float(sample.exemplar.timestamp)) == (value_s, 1_700_000_000.5)
        text = "".join(exposition([histograms("wait_seconds", "Waiting.", shown)], openmetrics=False))
        assert "waiting_us" not in text


def test_an_exemplar_that_is_longer_than_openmetrics_allows_is_left_out() -> None:
    exemplar = Exemplar((("key", "k" * 200),), 0.00003, 1.0)
    family = histograms("wait_seconds", "Waiting.", [((), Histogram([30]), exemplar)])
    found = parsed(family, openmetrics=True)["wait_seconds"]
    assert all(sample.exemplar is None for sample in found.samples)


def test_a_text_of_openmetrics_ends_with_its_mark_and_another_does_not() -> None:
    assert "".join(exposition([], openmetrics=True)) == "# EOF\n"
    assert "".join(exposition([], openmetrics=False)) == ""


def test_openmetrics_is_sent_to_those_that_ask_for_it() -> None:
    prometheus = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4"
    assert accepts_openmetrics(prometheus)
    assert not accepts_openmetrics("text/html,*/*;q=0.8")
    assert not accepts_openmetrics("")
