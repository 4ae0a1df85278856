"""docs/gateway.md: the program of the page runs, with stubs that protoc generated, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from tests.integration.gateway_place import gateway_place
from tests.integration.grpc_stubs import stubs

import ottla.testing

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")


def test_the_program_on_the_page_prints_what_the_page_says() -> None:
    found = re.search(r"^```python-grpc\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    stubs()
    with (
        ottla.testing.broker() as broker,
        gateway_place(broker.bootstrap, grpc_listen="127.0.0.1:0") as place,
    ):
        broker.create_topic("drinks")
        program = found[1].replace("localhost:9090", f"127.0.0.1:{place.gateway.grpc_port}")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, "docs/gateway.md", "exec"), {})
        assert printed.getvalue() == found[2]
