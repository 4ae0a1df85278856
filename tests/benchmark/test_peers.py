"""The benchmark beside other logs still runs, and the pages quote what it measured (OPS-8).

Requirements: OPS-8.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench import peers
from bench.apache.maven import CannotFetchError
from bench.peer_loads import STREAMS
from bench.peer_servers import PEERS, Peer
from bench.peers import SIDES, PeersBench, available, page, ratios_table
from tests.repository import ROOT

COMPARISON = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
RESULTS = peers.RESULTS.read_text(encoding="utf-8")


@pytest.mark.timeout(240)  # it starts eight processes
def test_every_figure_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "IDLE_S", 0.0)
    bench = PeersBench(SIDES[:1], tmp_path)
    with bench.running():
        bench.round(1, 0.003)
    found = bench.measured
    assert set(found) == set(rows_of(RESULTS, "Everything"))
    assert all(by_side["Ottla"][0] > 0 for by_side in found.values())


def test_a_server_that_is_not_to_be_had_is_left_out_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> str:
        raise CannotFetchError("it is not there")

    gone = Peer("redis", absent, lambda *_: [], lambda _: False)
    monkeypatch.setattr(peers, "PEERS", {**PEERS, "redis": gone})
    assert available(["ottla", "redis"]) == ({"ottla": "this commit"}, {"redis": "it is not there"})


def test_a_ratio_is_taken_within_a_round_and_to_the_same_client() -> None:
    by_side = {"Ottla": [10.0, 20.0], "Redis streams": [20.0, 10.0]}
    by_side |= {"Ottla, librdkafka": [4.0, 4.0], "Kafka, librdkafka": [2.0, 1.0]}
    heading, _, row = ratios_table({"produce": by_side}, SIDES)
    cells = dict(zip(heading.split("|"), row.split("|"), strict=True))
    told = {name.strip(): text.strip() for name, text in cells.items()}
    assert told["Redis streams ÷ Ottla"] == "1.25 (0.50 to 2.00)"
    assert told["Kafka, librdkafka ÷ Ottla, librdkafka"] == "0.38 (0.25 to 0.50)"
    assert told["NATS JetStream ÷ Ottla"] == "-"


def test_every_column_has_its_server_and_its_client() -> None:
    assert {side.peer for side in SIDES} == set(PEERS)
    assert {side.client for side in SIDES} == set(STREAMS)
    names = {side.name for side in SIDES}
    assert {side.beside for side in SIDES} <= {None, *names}
    assert all(f"÷ {side.beside}" in page({}, SIDES, "command", 1, []) for side in SIDES if side.beside)


def test_the_comparison_quotes_the_results() -> None:
    everything, quoted = rows_of(RESULTS, "Everything"), rows_of(COMPARISON, "Measured beside the others")
    assert quoted
    for figure, cells in quoted.items():
        medians = {name: cell.split(" (")[0] for name, cell in everything[figure].items()}
        assert {name: medians[name] for name in cells} == cells


def test_every_system_has_its_notes_for_those_who_come_from_it() -> None:
    notes = COMPARISON.split("\n## Coming from another system\n")[1]
    for system in ("Apache Kafka", "NATS JetStream", "RabbitMQ", "SQS and SNS", "Redis streams"):
        assert f"\n### {system}\n" in notes


def rows_of(text: str, title: str) -> dict[str, dict[str, str]]:
    """A page's table: first cell → heading → cell."""
    section = text.split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|") and not re.fullmatch(r"[|\s-]+", line)
    ]
    heading, *rows = lines
    return {row[0]: dict(zip(heading[1:], row[1:], strict=True)) for row in rows}
