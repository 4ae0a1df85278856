"""The log as JSON objects: fields, failures, and repetitions that are counted (OPS-2)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.cli.json_log import JsonLines


class Log:
    """A logger of its own, and what it wrote."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.handler = JsonLines(self._stream)
        self.logger = logging.Logger("ottla.test")
        self.logger.addHandler(self.handler)

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.handler.close()


def test_a_line_is_an_object_with_its_fields(log: Log) -> None:
    log.logger.warning("%s is\n“full”", "orders-3", extra={"topic": "orders", "partition": 3, "other": 1})
    (found,) = log.objects
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "WARNING",
        "logger": "ottla.test",
        "message": "orders-3 is\n“full”",
        "topic": "orders",
        "partition": 3,
    }


def test_a_failure_has_its_traceback(log: Log) -> None:
    try:
        raise OSError("no room")
    except OSError:
        log.logger.exception("failed")
    assert log.objects[0]["exception"].endswith("OSError: no room")


def test_repeated_lines_are_counted_not_repeated(log: Log) -> None:
    for _ in range(1000):
        log.logger.warning("refusing %s", "it")
    log.logger.info("something else")
    log.logger.info("something else")
    log.handler.close()
    assert [(each["message"], each.get("repeated")) for each in log.objects] == [
        ("refusing it", None),
        ("refusing it", 999),
        ("something else", None),
        ("something else", 1),
    ]


def test_a_line_that_goes_on_is_written_again_after_a_while(log: Log) -> None:
    for at_s in (0.0, 4.0, 9.9, 10.0, 11.0):
        record = logging.LogRecord("ottla", logging.INFO, "", 0, "the same", None, None)
        record.created = 1_000_000 + at_s
        log.logger.handle(record)
    assert [each.get("repeated") for each in log.objects] == [None, 2, None]


def test_a_record_that_cannot_be_formatted_is_no_end(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.logger.info("%d", "not a number")
    log.logger.info("well")
    assert [each["message"] for each in log.objects] == ["well"]
    assert "not a number" in capsys.readouterr().err
