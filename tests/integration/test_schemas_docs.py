"""docs/schemas.md: every request on the page is sent, and its program is run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.integration.command_line import ottla_here
from tests.integration.gateway_place import gateway_place
from tests.integration.test_gateway_docs import fits, sent

import ottla.testing

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "schemas.md").read_text(encoding="utf-8")
EXCHANGE = re.compile(r"```http\n(.*?)```\n\n```json\n(.*?)```", re.DOTALL)
PROGRAM = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)

CREATED = re.compile(r"^ottla topics (create .*)$", re.MULTILINE)


def test_the_answers_on_the_page_are_those_of_the_gateway() -> None:
    exchanges = EXCHANGE.findall(PAGE)
    assert len(exchanges) >= 7
    created = CREATED.search(PAGE)
    assert created is not None
    with ottla.testing.broker() as broker, gateway_place(broker.bootstrap) as place:
        assert ottla_here("topics", *created[1].split(), bootstrap=broker.bootstrap).returncode == 0
        for request, shown in exchanges:
            answer = sent(place, request)
            assert fits(json.loads(shown), answer), f"{request}\n{json.dumps(answer)}"


def test_the_program_on_the_page_prints_what_the_page_says() -> None:
    ((program, printed),) = PROGRAM.findall(PAGE)
    with ottla.testing.broker() as broker, gateway_place(broker.bootstrap) as place:
        here = program.replace("localhost:9092", broker.bootstrap)
        here = here.replace("http://localhost:8082", place.gateway.url)
        done = subprocess.run(
            [sys.executable, "-c", here], capture_output=True, text=True, timeout=60, check=False
        )
    assert (done.stdout, done.stderr) == (printed, "")
