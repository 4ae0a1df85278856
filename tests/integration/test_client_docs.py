"""The pages on the Python clients: what they show runs as it stands there, and prints what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.localcluster.broker_process import BrokerProcess, running, start_broker

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("clients.md", "delivery.md", "recipes.md", "migration.md")
OTHER_CLIENTS = re.compile(r"^(?:from|import) (?:aiokafka|confluent_kafka|kafka)\b", re.MULTILINE)

# A block may await outside a function, as in a notebook.
RUN_LIKE_A_NOTEBOOK = """
import ast, asyncio, inspect, sys
code = compile(sys.argv[1], "<page>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
names = {"__name__": "__main__"}
async def run(): await eval(code, names)
asyncio.run(run()) if code.co_flags & inspect.CO_COROUTINE else exec(code, names)
"""


def text_of(page: str) -> str:
    return (DOCS / page).read_text()


def blocks_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text_of(page), re.DOTALL)


def promised(block: str) -> list[str]:
    """What the comments beside calls of print say."""
    return re.findall(r"^ *print\(.*\)  # (.+)$", block, re.MULTILINE)


PROGRAMS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks_of(page), 1)
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"group.initial.rebalance.delay.ms": "0", "transaction.two.phase.commit.enable": "true"}
    with running(start_broker(tmp_path_factory.mktemp("pages") / "data", settings)) as process:
        yield process


@pytest.mark.parametrize("block", PROGRAMS)
def test_a_program_runs_and_prints_what_the_page_says(block: str, node: BrokerProcess) -> None:
    assert "localhost:9092" in block
    program = block.replace("localhost:9092", node.bootstrap)
    # Other people's clients may warn; ours may not.
    warnings = "ignore" if OTHER_CLIENTS.search(block) else "error"
    command = [sys.executable, "-W", warnings, "-c", RUN_LIKE_A_NOTEBOOK, program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    if warnings == "error":
        assert done.stderr == ""
    said = iter(done.stdout.splitlines())
    assert promised(block)
    assert [line for line in promised(block) if line not in said] == [], done.stdout


@pytest.mark.parametrize(
    "named",
    [
        re.compile(r"(?:send|send_soon|send_and_wait|produce|NewTopic)\(\"([^\"]+)\""),
        re.compile(r"(?:group_id=|\"group.id\": |\"group_id\": )\"([^\"]+)\""),
    ],
    ids=["topic", "group"],
)
def test_no_two_programs_share_a_name(named: re.Pattern[str]) -> None:
    """They run on one broker: what one leaves behind must not reach another."""
    names = [name for page in PAGES for block in blocks_of(page) for name in set(named.findall(block))]
    assert len(names) >= 10
    assert sorted(set(names)) == sorted(names)
