"""`ottla.blocking` as type checkers see it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, assert_type

import pytest

import ottla
import ottla.blocking
from ottla.blocking.stub import render_stub

STUB = Path(ottla.blocking.__file__).with_suffix(".pyi")


def test_it_is_as_the_clients_are() -> None:
    assert STUB.read_text() == render_stub(), "run: .venv/bin/python docs/generators/blocking_stub.py"


def test_nothing_in_it_is_awaited() -> None:
    text = STUB.read_text()
    assert not re.search(r"\basync\b|\bAwaitable\[|\bAsync\w+\[", re.sub(r'""".*?"""', "", text, flags=re.S))


@pytest.mark.parametrize("name", ["Admin", "Consumer", "Producer"])
def test_it_has_every_name_that_the_classes_have(name: str) -> None:
    (tree,) = (
        node
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    stubbed = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    made = getattr(ottla.blocking, name)
    assert {each for each in stubbed if not each.startswith("_")} == {
        each for each in vars(made) if not each.startswith("_")
    }
    assert "__enter__" in stubbed


if TYPE_CHECKING:
    # Read by `mypy --strict` in `make check` only.
    def a_users_program(
        producer: ottla.blocking.Producer, consumer: ottla.blocking.Consumer, admin: ottla.blocking.Admin
    ) -> None:
        assert_type(producer.send("orders", "coffee", key="4"), ottla.DeliveryReport)
        assert_type(producer.send_soon("orders", "coffee"), ottla.blocking.Delivery)
        assert_type(producer.send_soon("orders", "coffee").result(), ottla.DeliveryReport)
        assert_type(consumer.poll(timeout_ms=5), list[ottla.ConsumerRecord])
        assert_type(consumer.batches(), Iterator[ottla.RecordBatch])
        assert_type(consumer.assignment, frozenset[ottla.TopicPartition])
        for record in consumer:
            assert_type(record, ottla.ConsumerRecord)
        with admin as opened:
            assert_type(opened, ottla.blocking.Admin)
        producer.send(7)  # type: ignore[arg-type]
