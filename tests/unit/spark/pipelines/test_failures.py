"""A sentence is left of what Spark says about a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark.pipelines.failures import Place, exception_in_words, in_words, place_of


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table `a` cannot be found. SQLSTATE: 42P01;\n'Project [*]\n",
            "The table `a` cannot be found.",
        ),
        (
            "Error: [STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: Disk is full. SQLSTATE: XXKST\n"
            "=== Streaming Query ===\nIdentifier: a",
            "Disk is full.",
        ),
        (
            "(org.apache.spark.SparkException) Job aborted.\n\nJVM stacktrace:\norg.apache.spark.SparkException\n\tat a.b(C.scala:1)\n"
            "Caused by: java.io.IOException: No space left on device\n\tat d.e(F.java:2)",
            "No space left on device",
        ),
        (
            'oops\nTraceback (most recent call last):\n  File "w.py", line 1\nottla.spark.option_values.OptionError: Option x is unknown.\n\tat a',
            "Option x is unknown.",
        ),
        (
            "Traceback (most recent call last):\n  File\nKeyError: 'a'\nZeroDivisionError: by zero\n",
            "ZeroDivisionError: by zero",
        ),
        ("", "no reason was given"),
        (
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: ottla. Make sure the provider name is correct. SQLSTATE: 42K02",
            "This Spark has no Ottla: with --master, add --ship; else install ottla[spark] in the Python of the Connect server (PYSPARK_PYTHON), and restart it. "
            "docs/spark-clusters.md has other ways.",
        ),
        (
            "Traceback (most recent call last):\n  File\nModuleNotFoundError: No module named 'ottla'\n\tat org.apache.spark.a",
            "The executors' Python has no Ottla: with --master, add --ship; else install it there. docs/spark-clusters.md has other ways.",
        ),
    ],
)
def test_the_sentence_is_kept(said: str, sentence: str) -> None:
    assert in_words(said) == sentence


def test_an_exception_is_placed_in_the_project(tmp_path: Path) -> None:
    file = tmp_path / "orders.py"
    file.write_text("def f():\n    return 1 / 0\nf()\n", encoding="utf-8")
    with pytest.raises(ZeroDivisionError) as raised:
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), {})

    assert place_of(raised.value, tmp_path) == Place(file, 2)
    assert exception_in_words(raised.value) == "ZeroDivisionError: division by zero"
    assert place_of(raised.value, tmp_path / "elsewhere") is None


def test_a_file_that_python_cannot_read_is_placed(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError) as raised:
        compile("a = (", str(tmp_path / "a.py"), "exec")

    assert place_of(raised.value, tmp_path) == Place(tmp_path / "a.py", 1)
    assert exception_in_words(raised.value) == "'(' was never closed"
