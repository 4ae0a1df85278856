"""The wheel: installed with plain pip into an empty environment, it does what the README's first page says.

Under `make test` with the Python that runs the tests; `make compat` adds every newer Python that it finds on the
machine (on the path, or among pyenv's), because each of them fetches the dependencies once more.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import pytest

pytestmark = pytest.mark.timeout(300)  # packages are fetched and compiled, on a machine that may be busy
ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
NEWER = ("3.12", "3.13", "3.14")
DEPENDENCIES = {"click", "cramjam", "crc32c", "rich"}
# What these bring along themselves, and what a new environment has.
COMPANIONS = {"markdown-it-py", "mdurl", "pygments", "pip", "setuptools"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel and sdist, as `make dist` makes them."""
    place = tmp_path_factory.mktemp("dist")
    said(BIN / "uv", "build", "--out-dir", place, cwd=ROOT)
    return place


@pytest.fixture(scope="module")
def programs(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment with this Python."""
    (wheel,) = dist.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    return installed(Path(sys.executable), wheel, tmp_path_factory.mktemp("installed") / "environment")


def said(*command: object, cwd: Path | None = None, given: str = "") -> str:
    """The output of a command that succeeds. It sees nothing of this checkout."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OTTLA_"))
    }
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=cwd,
        env=environment,
        input=given,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def newer_pythons() -> list[Path]:
    """One of each newer version that the machine has and that starts."""
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob("3.*/bin"))
    found = []
    for version in NEWER:
        places = [path for each in pyenv if (path := each / f"python{version}").exists()]
        places += [Path(found_on_path)] if (found_on_path := which(f"python{version}")) else []
        for place in places:
            if subprocess.run([place, "--version"], capture_output=True, check=False).returncode == 0:
                found.append(place)
                break
    return found


def installed(python: Path, wheel: Path, place: Path) -> Path:
    """The programs of a new environment that has only the wheel and what it asks for."""
    said(python, "-m", "venv", place)
    said(place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    return place / "bin"


@contextmanager
def served(programs: Path, place: Path) -> Iterator[str]:
    """`ottla serve` on a port of the kernel's; the address that it tells."""
    with subprocess.Popen(
        [programs / "ottla", "serve", "--port", "0", "--data", place / "data"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=place,
    ) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            found = re.search(r"ready at (\S+)", first)
            assert found, first
            yield found.group(1)
        finally:
            process.terminate()


def first_page(programs: Path, place: Path) -> None:
    """Serve, produce, consume, and the program of the README, in a directory without a checkout."""
    program = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    with served(programs, place) as address:
        said(programs / "ottla", "produce", "greetings", "--bootstrap", address, cwd=place, given="hello\n")
        assert "hello" in said(programs / "ottla", "consume", "greetings", "--bootstrap", address, cwd=place)
        told = said(programs / "python", "-c", program.replace("localhost:9092", address), cwd=place)
        assert "payments 0 0" in told
        assert "hello from ottla" in told


def test_an_empty_environment_gets_four_dependencies_and_does_what_the_readme_says(
    programs: Path, tmp_path: Path
) -> None:
    lines = said(programs / "python", "-m", "pip", "list", "--disable-pip-version-check", "--format=freeze")
    names = {line.partition("==")[0].lower() for line in lines.splitlines()} - {"ottla"}
    assert DEPENDENCIES <= names <= DEPENDENCIES | COMPANIONS
    first_page(programs, tmp_path)


@pytest.mark.parametrize(("command", "extra"), [("gateway", "gateway"), ("pipeline check coffee", "spark")])
def test_what_is_not_installed_is_told_with_the_command_that_installs_it(
    programs: Path, tmp_path: Path, command: str, extra: str
) -> None:
    if extra == "spark":
        said(programs / "ottla", "pipeline", "init", "coffee", cwd=tmp_path)
    done = subprocess.run(
        [programs / "ottla", *command.split()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode != 0
    assert f"ottla[{extra}]" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_wheel_and_sdist_hold_the_same_code(dist: Path) -> None:
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    in_wheel = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    in_sdist = {name.removeprefix("src/") for name in names if name.startswith("src/")}
    assert in_wheel == {name for name in in_sdist if not name.endswith(".c")}
    assert "ottla/py.typed" in in_wheel
    assert not [name for name in in_wheel if name.endswith((".so", ".pyc"))]


@pytest.mark.compat
def test_every_newer_python_of_the_machine_does_what_the_readme_says(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    pythons = newer_pythons()
    assert pythons, f"this machine has none of Python {', '.join(NEWER)}: nothing was tried"
    for python in pythons:
        place = tmp_path / python.name
        place.mkdir()
        first_page(installed(python, wheel, place / "environment"), place)
