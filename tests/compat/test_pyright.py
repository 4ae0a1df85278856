"""Pyright, which editors use, finds the same mistakes in a wrong program as mypy."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.apache.maven import CannotFetchError
from tests.compat.foreign_clients import pyright
from tests.integration.test_type_checking import PROGRAM, wrong_lines


def test_pyright_finds_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    try:
        command = [*pyright(), "--pythonpath", sys.executable]
    except CannotFetchError as why:
        pytest.skip(str(why))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([*command, str(program)], capture_output=True, text=True, timeout=110, check=False)
    found = set(re.findall(r"program\.py:(\d+):\d+ - error", done.stdout))
    assert found == wrong_lines().keys(), done.stdout + done.stderr
