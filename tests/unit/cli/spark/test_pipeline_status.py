"""How the last update went, in a word."""

from __future__ import annotations

import os
import subprocess
import sys

from ottla.cli.spark.pipeline_status import outcome_in_words
from ottla.spark.pipelines.state import UpdateState


def test_an_update_whose_process_is_gone_was_cut_off() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    assert outcome_in_words(UpdateState(1, gone.pid)) == "cut off"
    assert outcome_in_words(UpdateState(1, os.getpid())) == "running since"
    assert outcome_in_words(UpdateState(1, gone.pid, 2, "completed")) == "completed"
