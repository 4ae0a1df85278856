"""A process's stderr is passed on, but for the line that Java prints about Spark's modules."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import subprocess, sys
from ottla.spark.runtime.jvm_errors import without_incubator_warning

child = (
    "import sys; print('WARNING: Using incubator modules: jdk.incubator.vector', file=sys.stderr, flush=True);"
    "print('first', file=sys.stderr, flush=True); sys.stdin.read(); print('second', file=sys.stderr);"
    "print('no newline', end='', file=sys.stderr)"
)
with without_incubator_warning():
    running = subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE)
print("after", file=sys.stderr, flush=True)
running.communicate()
import threading
for thread in threading.enumerate():
    if thread.name == "jvm-errors":
        thread.join(20)
"""


def test_all_but_one_line_is_passed_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0
    assert sorted(done.stderr.splitlines()) == ["after", "first", "no newline", "second"]
