"""The page of the benchmark of tiered storage: rates by their units, ratios of the same round."""

from __future__ import annotations

from bench.tiers import Work, page


def test_the_page_has_medians_and_ratios_of_the_same_round() -> None:
    found = {
        "MB/s: the store alone": [Work(200e6, 1), Work(200e6, 2), Work(200e6, 4)],
        "MB/s: cold fetch": [Work(200e6, 2, 0.1), Work(200e6, 2, 0.2), Work(200e6, 5, 0.3)],
    }
    by_s3 = {"krow/s: a task reads the store (readTier)": [Work(1000, 0.5)]}
    latencies = {"alone": [(1.0, 2.0)], "readers": [(3.0, 4.0)]}
    text = page(200_000, found, by_s3, latencies, [("cold", 19, 1.0, 2.0, 3.0)])
    assert "| cold fetch | 100 MB/s | 0.98 |" in text
    assert "| cold fetch ÷ the store alone | 0.80 | 0.8 |" in text
    assert "| a task reads the store (readTier) | 2 krow/s |  |" in text
    assert "| beside 10 cold readers at full speed | 3.0 ms | 4.0 ms |" in text
    assert "| 19 | 1.0 ms | 2 MB/s | 3.0 ms |" in text
