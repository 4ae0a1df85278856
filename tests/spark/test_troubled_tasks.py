"""Tasks that are retried, and stages that are, write each row once with exactly-once delivery (PIPE-3).

On executors that are processes of their own. Attempts that are alive at the same time: `test_sink_exactly_once.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.spark import troubled_tasks_job
from tests.spark.standalone import SHORT_LIVED_JVMS
from tests.spark.troubled_tasks_job import ROWS, TASKS, TROUBLES

import ottla.testing
from ottla.blocking import Admin, Consumer
from ottla.model import TopicPartition

JOB_DEADLINE_S = 380.0
pytestmark = pytest.mark.timeout(400)


def test_retried_tasks_and_stages_write_each_row_once(tmp_path: Path) -> None:
    with ottla.testing.broker() as broker:
        broker.create_topic("troubled", 2)
        command = [sys.executable, troubled_tasks_job.__file__, broker.bootstrap, "troubled", str(tmp_path)]
        done = subprocess.run(
            command,
            env={**os.environ, **SHORT_LIVED_JVMS},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=JOB_DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert all((tmp_path / f"{trouble}.begun").exists() for trouble in TROUBLES)
        assert len(list(tmp_path.glob("mapped-*"))) > TASKS, "the stage before has not run again"
        wanted = Counter(f"{trouble}:{number}" for trouble in TROUBLES for number in range(TASKS * ROWS))
        assert committed(broker.bootstrap, wanted.total()) == wanted
        with Admin(broker.bootstrap) as admin:
            assert admin.list_transactions(states=["Ongoing"]) == []


def committed(bootstrap: str, least: int) -> Counter[str]:
    """The names of the committed rows; markers follow the decision, so waits for so many."""
    found: Counter[str] = Counter()
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("troubled", partition) for partition in range(2)])
        while found.total() < least or any(consumer.lag().values()):
            for record in consumer.poll(timeout_ms=500):
                ((_, name),) = record.headers
                found[bytes(name or b"").decode()] += 1
    return found
