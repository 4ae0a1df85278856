"""The page of the gateway's benchmark: medians, and ratios of the same round."""

from __future__ import annotations

from bench.gateway import Figure, report


def test_the_page_has_medians_and_ratios_to_the_floor() -> None:
    rounds = [
        {"work: floor": Figure(100, floor), "work": Figure(50, own), "alone": Figure(7, 8)}
        for floor, own in ((100.0, 60.0), (200.0, 100.0), (100.0, 40.0))
    ]
    text = report(rounds, [1.0] * 99 + [9.0], [["1 WebSockets", "70 MiB", "5"]], "python -m bench.gateway")
    heading, row = (line for line in text.splitlines() if line.startswith("| work "))
    assert "ratio to the floor" in heading
    assert [cell.strip() for cell in row.split("|")[1:-1]] == ["work", "50", "60", "100", "0.50"]
    assert "1.0 ms in the median" in text
    assert "9.0 ms at the 99th percentile" in text
