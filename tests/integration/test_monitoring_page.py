"""docs/monitoring.md: its commands run, its rules name metrics that there are, its examples are what comes (OPS-2)."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integration.command_line import OTTLA, ottla
from tests.integration.metrics_page import Metrics, get, http_port_in

from ottla.localcluster.ports import free_port

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "monitoring.md").read_text()
# Of an expression: functions and words of Prometheus, and labels.
NO_METRICS = {"and", "or", "by", "max", "min", "sum", "rate", "delta", "instance", "le", "group", "topic"}
NO_METRICS |= {"histogram_quantile", "predict_linear", "m", "h"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """`ottla serve`, and the two lines that it prints when it is ready."""
    command = [OTTLA, "serve", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, [process.stdout.readline(), process.stdout.readline()]
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.fixture(scope="module")
def page_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The HTTP port of the page's own command, with a port and a directory that are free."""
    (command,) = blocks("sh")
    port = free_port()
    arguments = command.strip().replace("9644", str(port)).split()[2:]
    data = str(tmp_path_factory.mktemp("page") / "data")
    with serving(*arguments, "--data", data, "--port", "0") as (_, lines):
        assert f"metrics at http://localhost:{port}/metrics" in lines[1]
        yield port


def test_the_command_serves_every_path_of_the_table(page_port: int) -> None:
    paths = re.findall(r"^\| `(/[^`]+)` \|", PAGE, re.MULTILINE)
    assert len(paths) == 9
    for path in paths:
        assert get(page_port, path.replace("seconds=5", "seconds=0.1")).status == 200
    assert {path.partition("?")[0] for path in paths} == {
        line.partition("?")[0] for line in get(page_port, "/").text.splitlines()[1:]
    }


def test_every_metric_of_the_alerts_is_there(page_port: int) -> None:
    rules = yaml.safe_load(blocks("yaml")[1])["groups"][0]["rules"]
    metrics = Metrics(page_port)
    there = {sample.name for family in metrics.families.values() for sample in family.samples}
    there |= set(metrics.families)  # a family without samples yet
    for rule in rules:
        names = set(re.findall(r"[a-z_]{2,}|\bm\b", re.sub(r"\[[^]]*]", "", rule["expr"]))) - NO_METRICS
        assert names, rule
        assert names <= there, (rule["alert"], names - there)
        assert rule["annotations"]["summary"].endswith(".")


def test_every_metric_that_the_text_names_is_there(page_port: int) -> None:
    metrics = Metrics(page_port)
    there = set(metrics.families) | {f"{name}_total" for name in metrics.families}
    named = set(re.findall(r"`((?:ottla|kafka)_[a-z_]+\*?)`", PAGE))
    assert len(named) > 10
    for name in named:
        prefix = name.removesuffix("*")
        assert any(found == name or (name != prefix and found.startswith(prefix)) for found in there), name


def test_the_scrape_configuration_is_one(page_port: int) -> None:
    (job,) = yaml.safe_load(blocks("yaml")[0])["scrape_configs"]
    assert job["static_configs"][0]["targets"][0] == "localhost:9644"
    assert Metrics(page_port, openmetrics=False).families


def test_json_lines_have_the_fields_of_the_page(tmp_path: Path) -> None:
    health, example = (json.loads(block) for block in blocks("json"))
    with serving("--data", str(tmp_path / "d"), "--port", "0", "--http", "0", "--log-format", "json") as (
        process,
        lines,
    ):
        http_port = http_port_in(lines[1])
        assert set(get(http_port, "/health/cluster").json) == set(health)
        process.terminate()
        _, said = process.communicate(timeout=20)
    objects: list[dict[str, Any]] = [json.loads(line) for line in said.splitlines()]
    assert objects
    assert all({"time", "level", "logger", "message"} <= set(each) for each in objects)
    assert objects[-1]["message"] == "stopping"
    assert set(example) == {
        "time",
        "level",
        "logger",
        "message",
        "topic",
        "partition",
        "offset",
        "epoch",
    }


@pytest.mark.parametrize("value", ["localhost", "localhost:x", "localhost:70000", "http://localhost:1", "-1"])
def test_an_address_that_is_none_is_refused_in_one_sentence(tmp_path: Path, value: str) -> None:
    done = ottla("serve", "--data", str(tmp_path / "d"), "--port", "0", "--http", value)
    assert done.returncode == 2
    assert re.search(rf"(--http|ottla\.http\.listener) cannot be '{re.escape(value)}'", done.stderr)
    assert done.stderr.count("\n") == 1
