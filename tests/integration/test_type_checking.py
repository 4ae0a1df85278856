"""A type checker sees the public names and their types: mypy finds the mistakes in wrong programs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.repository import ROOT

# Every line with a comment is wrong, and the comment is a part of mypy's complaint.
PROGRAM = """
import re

import ottla
import ottla.blocking
import ottla.testing
from ottla import Producr  # Module "ottla" has no attribute "Producr"
from ottla.blocking import Consumr  # Module "ottla.blocking" has no attribute "Consumr"
from ottla.testing import Fauts  # Module "ottla.testing" has no attribute "Fauts"
from ottla.spark import sesion  # Module "ottla.spark" has no attribute "sesion"

ottla.Admn  # Module has no attribute "Admn"
ottla.Producer("localhost:9092", acks="most")  # Argument "acks" to "Producer" has incompatible type
ottla.Producer(["one:9092", "two:9092"], acks="all")
ottla.Producer(["one:9092"], linger=5)  # Unexpected keyword argument "linger"
ottla.NewTopic("t", partitions="3")  # Argument "partitions" to "NewTopic" has incompatible type


async def main(producer: ottla.Producer, consumer: ottla.Consumer, admin: ottla.Admin) -> None:
    await producer.send(None, "v")  # Argument 1 to "send" of "Producer" has incompatible type
    await producer.send("t", "v", timestamp_ms=1.5)  # Argument "timestamp_ms" to "send" of "Producer"
    report = await producer.send("t", "v", headers={"a": b"b"})
    report.ofset  # "DeliveryReport" has no attribute "ofset"
    consumer.subscribe(["t"])
    consumer.subscribe(re.compile("t.*"))
    consumer.assign(["t"])  # List item 0 has incompatible type "str"
    await admin.delete_topics([1])  # List item 0 has incompatible type "int"
    (await admin.create_topics([ottla.NewTopic("t")]))["t"].topic_id  # Item "KafkaError" of


def blocking(producer: ottla.blocking.Producer) -> int:
    producer.send_soon("t", "v").result().offset
    return producer.send("t", "v").topic  # Incompatible return value type
"""


def wrong_lines() -> dict[str, str]:
    """What the comment of each wrong line says, by the line's number."""
    return {
        str(number): line.split("  # ")[1]
        for number, line in enumerate(PROGRAM.splitlines(), 1)
        if "  # " in line
    }


def test_mypy_finds_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--no-error-summary",
        "--config-file",
        "pyproject.toml",
        str(program),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    found = dict(re.findall(r"program\.py:(\d+): error: (.*)", done.stdout))
    wrong = wrong_lines()
    assert found.keys() == wrong.keys(), done.stdout + done.stderr
    for number, words in wrong.items():
        assert words in found[number]
