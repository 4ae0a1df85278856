from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ottla.localcluster.broker_process import (
    BrokerError,
    BrokerProcess,
    await_ready,
    clean_environment,
    running,
    serve_command,
    spawn,
)


def spawned(tmp_path: Path, program: str) -> BrokerProcess:
    return spawn("other", [sys.executable, "-c", program], tmp_path / "data", tmp_path / "output", 9092)


def test_the_output_of_a_process_is_kept(tmp_path: Path) -> None:
    broker = spawned(tmp_path, "print('hello')")
    assert broker.process.wait(30) == 0
    assert broker.said() == "hello\n"
    assert broker.bootstrap == "127.0.0.1:9092"


def test_a_broker_that_ends_before_it_is_ready_is_an_error_with_its_output(tmp_path: Path) -> None:
    broker = spawned(tmp_path, "raise SystemExit('no disk')")
    with pytest.raises(BrokerError, match="other ended with 1:\nno disk"):
        await_ready(broker, lambda: False)


def test_a_broker_is_stopped_at_the_end_of_its_block(tmp_path: Path) -> None:
    with running(spawned(tmp_path, "import time; time.sleep(60)")) as broker:
        assert await_ready(broker, lambda: True) is broker
        assert broker.is_running()
    assert not broker.is_running()


def test_settings_of_other_brokers_are_left_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_NUM_PARTITIONS", "7")
    monkeypatch.setenv("LANG_OF_TEST", "en")
    found = clean_environment()
    assert "OTTLA_NUM_PARTITIONS" not in found
    assert found["LANG_OF_TEST"] == "en"


def test_settings_become_options_of_the_command(tmp_path: Path) -> None:
    command = serve_command(tmp_path, {"num.partitions": "3"}, port=9093)
    assert command[1:] == ["serve", "--data", str(tmp_path), "--port", "9093", "--set", "num.partitions=3"]
