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


def test_protobuf_is_known_by_the_name_of_the_file(url: str, tmp_path: Path) -> None:
    def run(name: str, body: str, *arguments: str) -> tuple[int, str]:
        file = tmp_path / name
        file.write_text(f'syntax = "proto3"; message Payment {{ {body} }}', encoding="utf-8")
        done = ottla(
            "schemas", *arguments, *([] if arguments[0] == "diff" else [str(file)]), OTTLA_REGISTRY=url
        )
        return done.returncode, done.stdout + done.stderr

    assert run("1.proto", "int64 id = 1;", "register", "payments-value")[0] == 0
    assert (
        run("2.proto", "int64 id = 1; oneof how { string card = 2; }", "register", "payments-value")[0] == 0
    )
    code, text = run("3.proto", "string id = 1;", "check", "payments-value")
    assert (code, "FIELD_SCALAR_KIND_CHANGED" in text, "ONEOF_FIELD" in text) == (1, True, False)
    code, text = run("4.proto", "", "diff", "payments-value", "1", "2")
    assert (code, "+    string card = 2;" in text) == (0, True)
    assert "new readers, old data: yes\n" in text
    assert "old readers, new data: yes\n" in text


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
