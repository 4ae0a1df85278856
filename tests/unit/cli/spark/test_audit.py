"""`ottla audit` looks for the brokers before it starts Spark. (What it answers is in
tests/spark/test_audit.py.)
"""

from __future__ import annotations

import socket
from typing import NoReturn

import pytest
from click.testing import CliRunner

from ottla.cli.spark.audit import audit


def test_brokers_that_do_not_answer_are_told_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def session(*_: object, **__: object) -> NoReturn:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("ottla.spark.runtime.sessions.session", session)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"

    done = CliRunner().invoke(audit, ["orders", "tables/orders", "--bootstrap", address])

    assert (done.exit_code, done.output.startswith(f"Error: could not reach {address}: ")) == (2, True)
