"""Failures as sentences: which flow, which file and line, what happened; not the hundred lines of a JVM.

Spark's exceptions carry a sentence that is good, wrapped in others that are not: classes of exceptions, an
error class in brackets, a SQL state, the plan, the stack. The innermost sentence is kept.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Where a sentence ends and the machinery begins.
_ENDS: Final = (
    "\nJVM stacktrace:",
    "\nDriver stacktrace:",
    "\n\tat ",
    "\n=== Streaming Query",
    "\n== SQL",
    "\n'",  # the plan
    "\n+- ",
)
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w{5}\.?;?")
_ERROR_CLASS: Final = re.compile(r"\[[A-Z0-9_]+(?:\.[A-Z0-9_]+)*\] ")
_STREAM: Final = re.compile(
    r"^(?:Error: )?(?:\[STREAM_FAILED\] )?Query \[id = [^\]]*\] terminated with exception: "
)
_JAVA_CLASS: Final = re.compile(r"^(?:Caused by: )?\(?(?:[a-z_0-9]+\.)+[A-Z][\w$]*\)?:? ?")
_CAUSED_BY: Final = re.compile(r"^Caused by: (.*)", re.MULTILINE)
_PYTHON_ERROR: Final = re.compile(r"^((?:[A-Za-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception)): (.+)", re.MULTILINE)
# Spark's words around the cause; the cause says more.
_WRAPPERS: Final = (
    "[STREAM_FAILED]",
    "[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR]",
    "[PYTHON_DATA_SOURCE_ERROR]",
    "[FAILED_EXECUTE_UDF]",
    "[STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE]",
    "Job aborted",
    "[TASK_WRITE_FAILED]",
)
# A Spark without Ottla's classes reports that in terms of its own machinery.
_LACKING: Final = (
    (
        re.compile(r"Failed to find the data source: ottla\b"),
        "This Spark has no Ottla: with --master, add --ship; else install ottla[spark] in the Python of the Connect server (PYSPARK_PYTHON), and restart it. "
        "docs/spark-clusters.md has other ways.",
    ),
    (
        re.compile(r"No module named '(?:ottla|pyspark_ottla|crc32c|cramjam)'"),
        "The executors' Python has no Ottla: with --master, add --ship; else install it there. docs/spark-clusters.md has other ways.",
    ),
)
_OURS: Final = ("OptionError", "StepError", "DataLossError", "KafkaError")


class PipelineError(Exception):
    """A pipeline cannot be read or run; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a definition."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def in_words(text: str) -> str:
    """The sentence in what Spark says about a failure."""
    for signs, sentence in _LACKING:
        if signs.search(text):
            return sentence
    if told := _told_by_python(text):
        return told
    if any(wrapper in text[:400] for wrapper in _WRAPPERS) and (causes := _CAUSED_BY.findall(text)):
        text = causes[-1]
    return _sentence(text)


def _told_by_python(text: str) -> str | None:
    """The last line of a Python worker's traceback is the one that says what happened."""
    if "Traceback (most recent call last)" not in text:
        return None
    found = _PYTHON_ERROR.findall(text)
    if not found:
        return None
    name, message = found[-1]
    return (
        _sentence(message)
        if name.rpartition(".")[2] in (*_OURS, "ValueError")
        else f"{name}: {_sentence(message)}"
    )


def _sentence(text: str) -> str:
    cut = min((at for end in _ENDS if (at := text.find(end)) > 0), default=len(text))
    text = _STREAM.sub("", text[:cut].strip())
    while (shorter := _JAVA_CLASS.sub("", text)) != text and shorter:
        text = shorter
    text = _ERROR_CLASS.sub("", _SQL_STATE.sub("", text))
    return " ".join(text.split()).rstrip(";") or "no reason was given"


def exception_in_words(error: BaseException) -> str:
    """The sentence in an exception."""
    if isinstance(error, SyntaxError):
        return f"{error.msg}"
    said = in_words(str(error))
    plain = type(error).__module__ in ("builtins",) and not isinstance(error, ValueError)
    return f"{type(error).__name__}: {said}" if plain else said


def place_of(error: BaseException, directory: Path) -> Place | None:
    """The innermost line of the project that an exception came through."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Place(Path(error.filename), error.lineno)
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if Path(frame.filename).is_relative_to(directory) and frame.lineno:
            return Place(Path(frame.filename), frame.lineno)
    return None
