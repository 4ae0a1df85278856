"""docs/lake.md: its programs and commands run as they stand there, in their order, and print what it says."""

from __future__ import annotations

import io
import json
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla.testing
from ottla.cli.main import ottla as command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lake.md"
BLOCK = re.compile(r"```(python|sh|text)\n(.*?)```", re.DOTALL)


def bare(text: str) -> str:
    """Without white space and lines of a table."""
    return re.sub(r"[\s─]", "", text)


def run(line: str) -> str:
    done = CliRunner().invoke(command, shlex.split(line)[1:])
    assert done.exit_code == 0, f"{line}\n{done.output}"
    return done.stdout


def test_the_programs_and_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 10
    with ottla.testing.broker() as broker:
        broker.create_topic("orders", 1)
        monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
        names: dict[str, object] = {}
        shown = ""
        for language, block in blocks:
            if language == "sh":
                outputs = [run(line) for line in block.splitlines()]
                shown = outputs[0]
            elif language == "text":
                assert bare(block) == bare(shown)
            else:
                printed = io.StringIO()
                with redirect_stdout(printed):
                    exec(compile(block.replace("localhost:9092", broker.bootstrap), str(PAGE), "exec"), names)
                promised = re.findall(r"^print\(.*\)  # (.+)$", block, re.MULTILINE)
                assert printed.getvalue().splitlines() == promised


def test_commands_refuse_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_WAREHOUSE", str(tmp_path / "lake"))
    with ottla.testing.broker() as broker:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
        broker.create_topic("orders", 1)
        for line, words in {
            "lake enable nothing --table t": "has no topic nothing",
            "lake enable orders --table 1a": "cannot be the name of a table",
            "lake enable orders --table t --value registry": "need its address",
            "lake enable orders --table t --column a=text --value json": "'text' is no type of a column",
            "lake enable orders --table t --catalog token=x": "secrets are not kept",
            "lake enable orders --table t --catalog type=nonsense": "failed|invalid|nonsense",
            "lake run": "No topic has a table",
            "lake run orders": "has no table in",
            "lake disable orders": "has no table in",
            'sql "SELECT"': "Parser Error|syntax error",
            'sql "SELECT 1" --output parquet': "needs a file",
        }.items():
            done = CliRunner().invoke(command, shlex.split(line))
            assert done.exit_code in (1, 2), f"{line}\n{done.output}"
            assert re.search(words, done.output), f"{line}\n{done.output}"
            assert done.exception is None or isinstance(done.exception, SystemExit)
        assert CliRunner().invoke(command, ["lake", "status", "--json"]).output == "[]\n"


def test_a_result_has_four_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_WAREHOUSE", str(tmp_path / "lake"))
    query = "SELECT 1 AS a, 'x''y' AS b, [1,2] AS c, '\\xFF'::BLOB AS d, NULL AS e, DATE '2026-01-02' AS f"
    as_json = CliRunner().invoke(command, ["sql", query, "--output", "json"]).output
    assert json.loads(as_json) == {"a": 1, "b": "x'y", "c": [1, 2], "d": "ff", "e": None, "f": "2026-01-02"}
    as_csv = CliRunner().invoke(command, ["sql", query, "--output", "csv"]).output
    assert as_csv.splitlines() == ["a,b,c,d,e,f", '1,x\'y,"[1, 2]",ff,,2026-01-02']
    assert "1 rows" in CliRunner().invoke(command, ["sql", query]).output
    file = tmp_path / "r.parquet"
    CliRunner().invoke(command, ["sql", query, "--output", "parquet", "--to", str(file)])
    assert file.read_bytes()[:4] == b"PAR1"
