"""The HTTP pages of a broker, as a scraper and a person get them."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

HOST = "127.0.0.1"
OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


class Page(NamedTuple):
    """An answer."""

    status: int
    content_type: str
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def get(port: int, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Page:
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return Page(answer.status, answer.headers.get("Content-Type", ""), answer.read().decode())
    finally:
        connection.close()


class Metrics:
    """One scrape, read by the parser of prometheus_client."""

    def __init__(self, port: int, *, openmetrics: bool = True) -> None:
        page = get(port, "/metrics", OPENMETRICS if openmetrics else {})
        assert page.status == 200, page
        parse = parse_openmetrics if openmetrics else parse_prometheus
        self.content_type = page.content_type
        self.families = {family.name: family for family in parse(page.text)}
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str | int) -> float | None:
        """A sample; None if there is none with exactly these labels."""
        wanted = frozenset((key, str(value)) for key, value in labels.items())
        return self._samples.get((name, wanted))

    def counted(self, name: str, **labels: str | int) -> float:
        """A sample, 0 if there is none."""
        return self.value(name, **labels) or 0.0

    def labels(self, name: str) -> list[dict[str, str]]:
        """The labels of all samples of a name."""
        return [dict(labels) for found, labels in self._samples if found == name]


def http_port_in(output: str) -> int:
    """The port that a broker printed."""
    found = re.findall(r"metrics at http://[^/]+:(\d+)/metrics", output)
    assert found, output
    return int(found[-1])
