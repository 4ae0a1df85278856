"""Which schemas a broker takes for registered, by the records of `_schemas`: GTW-4."""

from __future__ import annotations

from dataclasses import replace

from ottla.schemas.registry.records import SchemaKey, SubjectClearing, SubjectDeletion
from ottla.schemas.registry.registered import RegisteredSchemas
from ottla.schemas.registry.values import StoredVersion
from ottla.schemas.schema import SchemaText


def version(subject: str, number: int, schema_id: int, text: str = '"string"') -> StoredVersion:
    schema = SchemaText("AVRO", text)
    return StoredVersion(subject, number, schema_id, schema, schema.digest)


ORDER = version("orders-value", 1, 7)


def made(*changes: StoredVersion | SchemaKey | SubjectDeletion | SubjectClearing) -> RegisteredSchemas:
    schemas = RegisteredSchemas()
    for each in changes:
        schemas.replay(each)
    return schemas


def test_a_schema_is_registered_under_its_subjects_by_id_and_by_guid() -> None:
    schemas = made(ORDER, version("bills-value", 1, 7))
    for name in (7, ORDER.guid):
        assert schemas.has(name, "orders-value")
        assert schemas.has(name, "bills-value")
        assert schemas.has(name, None)
        assert not schemas.has(name, "orders-key")
    assert not schemas.has(8, "orders-value")
    assert not schemas.has(8, None)


def test_a_deleted_version_is_not_registered_any_more() -> None:
    for deletion in (
        replace(ORDER, is_deleted=True),
        SchemaKey("orders-value", 1),
        SubjectDeletion("orders-value", 1),
        SubjectClearing("orders-value"),
        SubjectClearing(""),
    ):
        schemas = made(ORDER, deletion)
        assert not schemas.has(7, "orders-value")
        assert not schemas.has(ORDER.guid, None)


def test_a_schema_of_two_versions_is_registered_until_both_are_deleted() -> None:
    schemas = made(ORDER, version("orders-value", 3, 7), SubjectDeletion("orders-value", 2))
    assert schemas.has(7, "orders-value")
    schemas.replay(SchemaKey("orders-value", 3))
    assert not schemas.has(7, "orders-value")
    # What was deleted softly may be registered again.
    schemas.replay(ORDER)
    assert schemas.has(7, None)


def test_a_record_that_comes_again_counts_once() -> None:
    assert not made(ORDER, ORDER, SchemaKey("orders-value", 1)).has(7, None)


def test_ids_of_other_contexts_are_others() -> None:
    schemas = made(version(":.sales:orders-value", 1, 7))
    assert not schemas.has(7, None)
    assert not schemas.has(7, ":.sales:orders-value")
