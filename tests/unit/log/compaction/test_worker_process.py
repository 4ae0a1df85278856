"""The cleaner's side of the pipe: questions in, answers out."""

import json
import os
import subprocess
import sys
from dataclasses import asdict

import pytest
from tests.unit.log.compaction_model import LIMITS, unhurried

from ottla.log.compaction.cleaner import Cleaner
from ottla.log.compaction.worker_process import Orphaned, answer, leaving_with
from ottla.runtime.disk import OsDisk

JOB = {
    "directory": "/nowhere",
    "first_dirty_offset": 0,
    "end_offset": 1,
    "now_ms": 0,
    "delete_retention_ms": 0,
    "index_interval_bytes": 4096,
    "segment_index_bytes": 4096,
    "segments": [[0, 70]],
    "producers": [[7, 0, -1]],
}


def test_a_failure_is_an_answer_like_any_other() -> None:
    found = answer(Cleaner(OsDisk(), LIMITS, unhurried()), {"job": JOB})
    assert found == {"error": [2, "No such file or directory", f"/nowhere/{0:020d}.log"]}


def test_a_lack_of_memory_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cleaner = Cleaner(OsDisk(), LIMITS, unhurried())

    def fail(_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(cleaner, "build_map", fail)
    assert answer(cleaner, {"job": JOB}) == {"error": [12, os.strerror(12), None]}


def test_it_leaves_when_its_parent_is_another() -> None:
    leaving_with(os.getppid())()
    with pytest.raises(Orphaned):
        leaving_with(os.getpid())()


def test_it_ends_when_its_input_does() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ottla.log.compaction.worker_process",
            json.dumps(asdict(LIMITS)),
            str(os.getpid()),
        ],
        input=json.dumps({"job": JOB}) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert json.loads(done.stdout)["error"][0] == 2
    assert done.stderr == ""
