"""Registration: ids, versions, references, compatibility; and what a compacted topic says."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gateway.registry.machine.place import Place, state_of

from ottla.gateway.registry.machine import deletion
from ottla.gateway.registry.machine.problems import RegistryError
from ottla.gateway.registry.machine.registration import Submission
from ottla.gateway.registry.machine.settings import delete_settings, set_mode, set_settings
from ottla.schemas.registry.records import version_record
from ottla.schemas.registry.values import StoredVersion
from ottla.schemas.schema import AVRO, Reference, SchemaText


def record(name: str, *fields: Any) -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


def test_equal_schemas_have_one_id_and_versions_count_up() -> None:
    place = Place()
    place.carry_out(set_settings(place.catalog, None, {"compatibility": "NONE"}))
    first, again, second = (
        place.register("a", '"int"'),
        place.register("a", ' "int" '),
        place.register("a", '"long"'),
    )
    elsewhere, in_context = place.register("b", '"long"'), place.register(":.c:a", '"long"')
    assert (first.id, first.version) == (again.id, again.version) == (1, 1)
    assert (second.id, second.version) == (2, 2)
    assert (elsewhere.id, elsewhere.version) == (2, 1)
    assert (in_context.id, in_context.version) == (1, 1)
    assert in_context.guid == second.guid


def test_a_soft_deleted_schema_that_comes_back_takes_its_id_and_a_new_version() -> None:
    place = Place()
    first = place.register("a", '"int"')
    place.carry_out(deletion.delete_version(place.catalog, "a", 1, permanent=False))
    back = place.register("a", '"int"')
    assert (back.id, back.version) == (first.id, 2)
    assert [each.version for each in place.catalog.versions("a", include_deleted=True)] == [2]


def test_a_circle_of_references_is_refused_in_words() -> None:
    place = Place()
    for subject, other in (("a", "b"), ("b", "a")):
        schema = SchemaText(AVRO, '"int"', (Reference("n", other, 1),))
        place.catalog.replay(StoredVersion(subject, 1, 1, schema, schema.digest))
    with pytest.raises(RegistryError, match="circle: a version 1 -> b version 1 -> a version 1") as refused:
        place.register("c", Submission('"int"', references=(Reference("a", "a", 1),)))
    assert refused.value.code == 42201


def test_a_diamond_of_references_is_read_once() -> None:
    place = Place()
    place.register("base", record("Base", {"name": "x", "type": "int"}))
    base = (Reference("Base", "base", 1),)
    for name in ("Left", "Right"):
        text = record(name, {"name": "b", "type": "Base"})
        place.register(name, Submission(text, references=base))
    top = record("Top", {"name": "l", "type": "Left"}, {"name": "r", "type": "Right"})
    both = (Reference("Left", "Left", -1), Reference("Right", "Right", 1))
    made = place.register("top", Submission(top, references=both))
    assert [each.version for each in made.schema.references] == [1, 1]


def test_ten_thousand_versions_are_compared_in_bounded_time() -> None:
    place = Place()
    place.carry_out(set_settings(place.catalog, "s", {"compatibility": "FULL_TRANSITIVE"}))
    for number in range(10_000):
        text = record("R", {"name": f"f{number}", "type": "int", "default": number})
        schema = SchemaText(AVRO, text)
        place.catalog.replay(StoredVersion("s", number + 1, number + 1, schema, schema.digest))
    begin = time.perf_counter()
    made = place.register("s", record("R", {"name": "new", "type": "int", "default": 1}))
    assert made.version == 10_001
    assert time.perf_counter() - begin < 60  # about a second on an idle machine


def test_a_read_only_registry_takes_nothing() -> None:
    place = Place()
    place.register("a", '"int"')
    place.carry_out(set_mode(place.catalog, None, "READONLY_OVERRIDE", force=False))
    for attempt in (
        lambda: place.register("b", '"int"'),
        lambda: deletion.delete_subject(place.catalog, "a", permanent=False),
        lambda: set_settings(place.catalog, "a", {"compatibility": "NONE"}),
        lambda: delete_settings(place.catalog, None),
    ):
        with pytest.raises(RegistryError) as refused:
            attempt()
        assert refused.value.code == 42205


def test_import_needs_an_empty_place_or_force() -> None:
    place = Place()
    place.register("a", '"int"')
    with pytest.raises(RegistryError, match="there are schemas"):
        set_mode(place.catalog, None, "IMPORT", force=False)
    place.carry_out(deletion.delete_subject(place.catalog, "a", permanent=False))
    place.carry_out(set_mode(place.catalog, None, "IMPORT", force=False))
    assert state_of(place.catalog) == []
    made = place.register("a", Submission('"string"', id=9, version=3))
    assert (made.id, made.version) == (9, 3)
    assert place.catalog.next_id(".") == 10


def test_settings_are_taken_from_the_nearest_scope() -> None:
    place = Place()
    for scope, level in (
        (None, "FULL"),
        (":.c:", "NONE"),
        (":.c:s", "FORWARD"),
        (":.__GLOBAL:", "FULL_TRANSITIVE"),
    ):
        place.carry_out(set_settings(place.catalog, scope, {"compatibility": level}))
    found = {each: place.catalog.settings_in_force(each).level for each in ("s", ":.c:x", ":.c:s", ":.d:s")}
    assert found == {"s": "FULL", ":.c:x": "NONE", ":.c:s": "FORWARD", ":.d:s": "FULL_TRANSITIVE"}


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_a_compacted_topic_says_the_same_as_the_whole_one(seed: int) -> None:
    """Random registrations and deletes; a compacted topic leaves out what newer records replace."""
    rng, place = random.Random(seed), Place()
    place.carry_out(set_settings(place.catalog, None, {"compatibility": "NONE"}))
    for _ in range(30):
        subject = rng.choice(["a", "b", ":.c:a"])
        try:
            match rng.randrange(4):
                case 0 | 1:
                    place.register(subject, json.dumps(rng.choice(["int", "long", "string", "bytes"])))
                case 2:
                    version = rng.randrange(1, 5)
                    permanent = rng.random() < 0.5
                    place.carry_out(
                        deletion.delete_version(place.catalog, subject, version, permanent=permanent)
                    )
                case 3:
                    permanent = rng.random() < 0.5
                    place.carry_out(deletion.delete_subject(place.catalog, subject, permanent=permanent))
        except RegistryError:
            continue
    assert state_of(place.compacted()) == state_of(place.catalog), f"seed {seed}"


def test_a_version_is_written_whole() -> None:
    place = Place()
    made = place.register("a", '"int"')
    assert place.log == [version_record(made)]
