from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from ottla.spark.runtime.worker_python import python_launcher, worker_python

TELL = "import json, os, sys; print(json.dumps([os.environ.get('PYTHONPATH'), sys.executable, sys.argv[1:]]))"


def told(program: str | Path, python_path: str | None, *arguments: str) -> list[object]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if python_path is not None:
        environment["PYTHONPATH"] = python_path
    command = [str(program), "-c", TELL, *arguments]
    answer: list[object] = json.loads(subprocess.check_output(command, env=environment))
    return answer


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("/s p/a.zip:/s p/b.zip:/spark.jar:/mine", "/spark.jar:/mine"),
        ("/s p/a.zip:/s p/b.zip:/spark.jar:/s p/a.zip:/s p/b.zip:/mine:/s p/a.zip", "/spark.jar:/mine"),
        ("/s p/a.zip:/s p/a.zip:/s p/b.zip", ""),
        ("/other/a.zip:/s p/a.zip.d:/s p/b.zi", "/other/a.zip:/s p/a.zip.d:/s p/b.zi"),
        ("", ""),
        (None, None),
    ],
)
def test_the_launcher_takes_spark_s_zips_off_the_path_and_nothing_else(
    tmp_path: Path, given: str | None, left: str | None
) -> None:
    launcher = python_launcher(sys.executable, ["/s p/a.zip", "/s p/b.zip"], tmp_path)
    arguments = ["two words", "", "*"]
    assert told(launcher, given, *arguments) == [left, sys.executable, arguments]


@pytest.mark.parametrize(("given", "then"), [({}, "1"), ({"OMP_NUM_THREADS": "3"}, "3")])
def test_numpy_has_one_thread_where_nobody_says_how_many(
    tmp_path: Path, given: dict[str, str], then: str
) -> None:
    launcher = python_launcher(sys.executable, [], tmp_path)
    others = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [str(launcher), "-c", "import os; print(os.environ['OMP_NUM_THREADS'])"]
    assert subprocess.check_output(command, env=others | given, text=True).strip() == then


def test_workers_import_the_pyspark_that_is_installed(tmp_path: Path) -> None:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    library = Path(found.origin).parent / "python" / "lib"
    zips = ":".join(map(str, sorted(library.glob("*.zip"), reverse=True)))
    assert "pyspark.zip" in zips
    program = worker_python({"XDG_CACHE_HOME": str(tmp_path)})
    assert Path(program).is_relative_to(tmp_path)
    assert told(program, f"{zips}:/mine")[0] == "/mine"


def test_another_spark_than_the_installed_one_keeps_its_zips(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), "SPARK_HOME": str(tmp_path / "spark")}
    assert worker_python(environment) == sys.executable
