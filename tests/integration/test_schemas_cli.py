"""`ottla schemas`, run as a user runs it, against a gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.command_line import ottla
from tests.integration.gateway_place import gateway_place

import ottla.testing as kafka


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with kafka.broker() as broker, gateway_place(broker.bootstrap) as place:
        yield place.gateway.url


def avsc(path: Path, *fields: object) -> str:
    path.write_text(json.dumps({"type": "record", "name": "Order", "fields": list(fields)}), encoding="utf-8")
    return str(path)


def test_a_schema_is_registered_shown_checked_compared_and_deleted(url: str, tmp_path: Path) -> None:
    first = avsc(tmp_path / "1.avsc", {"name": "id", "type": "long"})
    second = avsc(
        tmp_path / "2.avsc", {"name": "id", "type": "long"}, {"name": "n", "type": "int", "default": 1}
    )
    wrong = avsc(tmp_path / "3.avsc", {"name": "id", "type": "long"}, {"name": "m", "type": "int"})

    def run(*arguments: str) -> tuple[int, str]:
        done = ottla("schemas", *arguments, OTTLA_REGISTRY=url)
        return done.returncode, done.stdout + done.stderr

    assert run("list") == (0, "There are no subjects.\n")
    code, text = run("register", "orders-value", first)
    assert (code, text.startswith("orders-value has the schema, version 1, with id 1 and GUID ")) == (0, True)
    assert run("register", "orders-value", second)[0] == 0
    code, text = run("check", "orders-value", wrong)
    assert code == 1
    assert "does not fit orders-value (compatibility BACKWARD)" in text
    assert "'m'" in text
    assert run("check", "orders-value", second) == (
        0,
        f"{second} fits orders-value (compatibility BACKWARD).\n",
    )
    assert json.loads(run("show", "orders-value", "--version", "1")[1])["fields"] == [
        {"name": "id", "type": "long"}
    ]
    code, text = run("diff", "orders-value", "1", "2")
    assert '+      "default": 1' in text
    assert "new readers, old data: yes\nold readers, new data: yes\n" in text
    assert json.loads(run("list", "--json")[1]) == [{"subject": "orders-value", "versions": [1, 2]}]
    assert "1-2" in run("list")[1]
    assert run("delete", "orders-value") == (0, "Deleted softly: orders-value versions 1-2.\n")
    assert run("delete", "orders-value", "--permanent") == (
        0,
        "Deleted for good: orders-value versions 1-2.\n",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "nobody"), "Subject 'nobody' not found."),
        (("show", "nobody", "--version", "zero"), "is no version"),
        (("diff", "nobody", "1"), "Subject 'nobody' not found."),
        (("delete", "nobody"), "Subject 'nobody' not found."),
    ],
)
def test_a_refusal_is_one_sentence(url: str, arguments: tuple[str, ...], words: str) -> None:
    done = ottla("schemas", *arguments, OTTLA_REGISTRY=url)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_registry_that_is_not_there_is_named() -> None:
    done = ottla("schemas", "list", "--registry", "http://127.0.0.1:9")
    assert done.returncode == 1
    assert "no schema registry answers: http://127.0.0.1:9" in done.stderr
