from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ottla.spark.runtime import class_archive
from ottla.spark.runtime.class_archive import ArchiveError, archive_options, archive_path, make_archive
from ottla.spark.runtime.java import Java


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """A Java with an archive of its own classes, in a virtual environment that may be written to."""
    (tmp_path / "java" / "lib" / "server").mkdir(parents=True)
    (tmp_path / "java" / "lib" / "server" / "classes.jsa").touch()
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.15"')
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    (tmp_path / "environment").mkdir()
    return Java(tmp_path / "java", 17, "JAVA_HOME")


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_without_an_archive_a_jvm_is_told_nothing(java: Java) -> None:
    assert archive_options(java) == ()


def test_an_archive_lies_in_the_environment_and_is_used_quietly(java: Java, tmp_path: Path) -> None:
    path = archive_path(java)
    assert path.parent == tmp_path / "environment" / "var" / "ottla"
    put(path)
    first, *rest = archive_options(java)
    assert first == f"-XX:SharedArchiveFile={path}"
    assert all(option.startswith("-Xlog:cds") and option.endswith("=off") for option in rest)


def test_outside_of_an_environment_it_lies_in_the_users_cache(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert archive_path(java).parent == tmp_path / "cache" / "ottla"


def test_another_java_or_another_spark_has_another_archive(java: Java, tmp_path: Path) -> None:
    before = archive_path(java)
    (java.home / "release").write_text('JAVA_VERSION="17.0.16"')
    updated = archive_path(java)
    (tmp_path / "spark" / "jars" / "new.jar").touch()
    assert len({before, updated, archive_path(java)}) == 3


def test_a_runtime_without_an_archive_of_its_own_gets_one_below_ours(
    java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    (java.home / "lib" / "server" / "classes.jsa").unlink()
    commands = []

    def run(command: list[str], _: Java) -> None:
        """The effects of Java and the training program."""
        commands.append(command)
        for argument in command:
            name, _separator, value = argument.partition("=")
            if name == "-XX:ArchiveClassesAtExit" or (
                name == "-XX:SharedArchiveFile" and "-Xshare:dump" in command
            ):
                Path(value).touch()

    monkeypatch.setattr(class_archive, "_run", run)
    made = make_archive(java)
    assert made == archive_path(java)
    layers = archive_options(java)[0].removeprefix("-XX:SharedArchiveFile=").split(":")
    assert [Path(layer).name.partition("-")[0] for layer in layers] == ["java", "spark"]
    assert all(Path(layer).exists() for layer in layers)
    assert f"-XX:SharedArchiveFile={layers[0]}" in commands[1]
    make_archive(java)
    assert len(commands) == 3  # Java's own is there


@pytest.mark.parametrize(
    ("script", "reason"),
    [("echo first; echo 'no space left' >&2; exit 1", "no space left"), ("exit 3", "exit code 3")],
)
def test_what_went_wrong_is_said_and_nothing_is_left(java: Java, script: str, reason: str) -> None:
    (java.home / "lib" / "server" / "classes.jsa").unlink()
    program = java.home / "bin" / "java"
    put(program)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with pytest.raises(ArchiveError, match=f"No archive of Spark's classes was made: {reason}"):
        make_archive(java)
    assert list(archive_path(java).parent.iterdir()) == []
    assert archive_options(java) == ()
