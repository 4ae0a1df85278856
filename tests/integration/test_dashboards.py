"""The dashboards and rules of `examples/grafana` name metrics that a broker serves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.metrics_page import Metrics

ROOT = Path(__file__).resolve().parents[2]
DASHBOARDS = sorted((ROOT / "examples" / "grafana").glob("*.json"))
NAME = re.compile(r"\b(?:ottla|kafka|process)_[a-z_]+")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """All names that a broker serves, those of families without a sample yet included."""
    settings = {"ottla.http.listener": "127.0.0.1:0"}
    with broker_thread(tmp_path_factory.mktemp("dashboards") / "data", settings) as broker:
        served: BrokerThread = broker
        assert served.broker.http_port
        families = Metrics(served.broker.http_port).families.values()
        names = {f"{each.name}{suffix}" for each in families for suffix in SUFFIXES[each.type]}
        yield names


SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_count", "_sum"),
    "info": ("_info",),
    "unknown": ("",),
}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_metric_of_a_dashboard_is_served(path: Path, there: set[str]) -> None:
    board = json.loads(path.read_text())
    questions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    questions += [each["query"] for each in board["templating"]["list"]]
    named = {name for question in questions for name in NAME.findall(question)}
    assert len(named) >= 10
    assert named <= there, named - there
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_rules_are_those_of_the_page_and_name_metrics_that_are_served(there: set[str]) -> None:
    rules = (ROOT / "examples" / "grafana" / "ottla-alerts.yaml").read_text()
    assert rules.partition("\n")[2] in (ROOT / "docs" / "monitoring.md").read_text()
    for rule in yaml.safe_load(rules)["groups"][0]["rules"]:
        assert set(NAME.findall(rule["expr"])) <= there, rule["alert"]


def test_there_are_dashboards() -> None:
    assert [path.stem for path in DASHBOARDS] == ["ottla-brokers", "ottla-topics-and-groups"]
