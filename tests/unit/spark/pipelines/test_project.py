"""A project's file: what it may say, and what is said about one that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.spark.pipelines.project import (
    ProjectError,
    checked_name,
    definition_files,
    find_project,
    load_project,
    local_path,
    parse_project,
)

FILE = Path("/p/spark-pipeline.yml")
GOOD: dict[str, Any] = {
    "name": "orders",
    "storage": "storage",
    "libraries": [{"glob": {"include": "transformations/**"}}],
}


def test_a_small_project_has_defaults() -> None:
    project = parse_project(GOOD, FILE)

    assert project.bootstrap_servers == "localhost:9092"
    assert project.storage == "file:///p/storage"
    assert project.warehouse == "file:///p/tables"
    assert project.table_format == "parquet"
    assert project.libraries == ("transformations/**/*",)


def test_what_is_said_counts() -> None:
    configuration = {
        "spark.ottla.bootstrap.servers": "a:1,b:2",
        "spark.sql.shuffle.partitions": 3,
        "spark.x": True,
        "spark.sql.warehouse.dir": "s3://b/w",
        "spark.ottla.tables.format": "delta",
    }
    project = parse_project(
        {**GOOD, "storage": "s3://b/c", "schema": "sales", "configuration": configuration}, FILE
    )

    assert project.bootstrap_servers == "a:1,b:2"
    assert project.configuration["spark.sql.shuffle.partitions"] == "3"
    assert project.configuration["spark.x"] == "true"
    assert (project.storage, project.warehouse, project.database) == ("s3://b/c", "s3://b/w", "sales")
    assert project.table_format == "delta"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, "'name' is missing"),
        ({"name": 7}, "'name' is 7, but takes a text"),
        ({"name": "a b"}, "'name' is 'a b', but takes a letter and then"),
        ({"storage": ""}, "'storage' is missing"),
        ({"librarys": []}, "'librarys' is unknown; did you mean 'libraries'"),
        ({"libraries": []}, "'libraries' says where the definitions are"),
        ({"libraries": ["transformations"]}, "in 'libraries', expected"),
        ({"libraries": [{"glob": {"include": "a/*/b.py"}}]}, "takes a file, or a folder and then /\\*\\*"),
        ({"configuration": [1]}, "'configuration' takes names and values"),
        ({"configuration": {"spark.a": [1]}}, "'spark.a' in 'configuration' takes a text or a number"),
        (
            {"configuration": {"spark.ottla.bootstrap": "x"}},
            "those of Ottla are spark.ottla.bootstrap.servers",
        ),
        ({"configuration": {"spark.ottla.tables.format": "csv"}}, "takes parquet or delta or iceberg"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], message: str) -> None:
    content = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(ProjectError, match=message):
        parse_project(content, FILE)


def test_a_file_that_is_no_project_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="There is no directory"):
        find_project(tmp_path / "none")
    with pytest.raises(ProjectError, match=r"is not a pipeline: there is no spark-pipeline.yml"):
        find_project(tmp_path)
    (tmp_path / "spark-pipeline.yml").write_text("name: [", encoding="utf-8")
    with pytest.raises(ProjectError, match="is not YAML"):
        load_project(tmp_path)
    (tmp_path / "spark-pipeline.yml").write_text("7", encoding="utf-8")
    with pytest.raises(ProjectError, match="expected fields"):
        load_project(tmp_path)
    (tmp_path / "spark-pipeline.yaml").write_text("", encoding="utf-8")
    with pytest.raises(ProjectError, match="keep one of them"):
        find_project(tmp_path)


def test_definitions_come_in_order_and_must_be_python_or_sql(tmp_path: Path) -> None:
    folder = tmp_path / "transformations"
    (folder / "__pycache__").mkdir(parents=True)
    for name in ("b.sql", "a.py", ".hidden", "__pycache__/a.pyc"):
        (folder / name).touch()
    project = parse_project(GOOD, tmp_path / "spark-pipeline.yml")
    assert [each.name for each in definition_files(project)] == ["a.py", "b.sql"]

    (folder / "notes.txt").touch()
    with pytest.raises(ProjectError, match=r"notes.txt is neither Python nor SQL"):
        definition_files(project)
    other = parse_project(
        {**GOOD, "libraries": [{"glob": {"include": "none/**"}}]}, tmp_path / "spark-pipeline.yml"
    )
    with pytest.raises(ProjectError, match="names no file that there is"):
        definition_files(other)


def test_names_and_paths() -> None:
    assert checked_name("orders-2") == "orders-2"
    with pytest.raises(ProjectError, match="cannot be called '2x'"):
        checked_name("2x")
    assert local_path("file:///a b") == Path("/a b")
    assert local_path("s3://a") is None
