"""The records of `_schemas` are Confluent's: its bytes are read, and ours are the same as its."""

from __future__ import annotations

import pytest

from ottla.gateway.registry.machine.catalog import Catalog
from ottla.schemas.levels import Level
from ottla.schemas.registry.records import (
    RegistryRecord,
    change_of,
    mode_record,
    settings_record,
    subject_clearing,
    subject_deletion,
    tombstone,
    version_record,
)
from ottla.schemas.registry.values import Mode, Settings, StoredVersion
from ottla.schemas.schema import AVRO, JSON, Reference, SchemaText

# As Confluent's registry writes them, in several of its versions.
CONFLUENT = (
    (b'{"keytype":"NOOP","magic":0}', None),
    (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}'),
    (
        b'{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}',
        b'{"subject":"orders-value","version":1,"id":3,"schema":"\\"string\\"","deleted":false}',
    ),
    (
        b'{"keytype":"SCHEMA","subject":"orders-value","version":2,"magic":1}',
        b'{"subject":"orders-value","version":2,"id":4,"md5":"EoLbB5NCHErYd3aRgYHlBg==","schemaType":"JSON",'
        b'"references":[{"name":"n","subject":"orders-value","version":1}],"schema":"{}","deleted":false}',
    ),
    (
        b'{"keytype":"DELETE_SUBJECT","subject":"orders-value","magic":0}',
        b'{"subject":"orders-value","version":1}',
    ),
    (b'{"keytype":"CONTEXT","tenant":"default","context":".c"}', b'{"tenant":"default","context":".c"}'),
    (
        b'{"keytype":"MODE","subject":"orders-value","magic":0}',
        b'{"subject":"orders-value","mode":"READONLY"}',
    ),
    (b'{"keytype":"CONFIG","subject":"gone","magic":0}', None),
)


def test_a_topic_of_confluents_registry_is_read() -> None:
    catalog = Catalog()
    for key, value in CONFLUENT:
        change = change_of(RegistryRecord(key, value))
        if change is not None:
            catalog.replay(change)
    first, second = catalog.versions("orders-value", include_deleted=True)
    assert (first.id, first.schema.text, first.is_deleted) == (3, '"string"', True)
    assert (second.id, second.schema.type, second.is_deleted) == (4, JSON, False)
    assert second.guid == "1282db07-9342-1c4a-d877-76918181e506"
    assert catalog.referrers("orders-value", 1) == [second]
    assert catalog.settings_in_force("orders-value").level is Level.FULL
    assert catalog.mode_in_force("orders-value") is Mode.READONLY
    assert catalog.next_id(".") == 5
    assert catalog.next_version("orders-value") == 3


def test_records_have_the_bytes_that_compaction_compares() -> None:
    schema = SchemaText(AVRO, '"é"', (Reference("n", "s", 1),))
    stored = StoredVersion("s", 2, 7, schema, bytes(16))
    assert version_record(stored) == (
        b'{"keytype":"SCHEMA","subject":"s","version":2,"magic":1}',
        '{"subject":"s","version":2,"id":7,"md5":"AAAAAAAAAAAAAAAAAAAAAA==",'
        '"references":[{"name":"n","subject":"s","version":1}],"schema":"\\"é\\"","deleted":false}'.encode(),
    )
    assert tombstone("s", 2) == (b'{"keytype":"SCHEMA","subject":"s","version":2,"magic":1}', None)
    assert settings_record(None, Settings(Level.NONE)) == (
        b'{"keytype":"CONFIG","magic":0}',
        b'{"compatibilityLevel":"NONE"}',
    )
    assert mode_record("s", Mode.IMPORT) == (
        b'{"keytype":"MODE","subject":"s","magic":0}',
        b'{"subject":"s","mode":"IMPORT"}',
    )
    assert subject_deletion("s", 3).value == b'{"subject":"s","version":3}'
    assert subject_clearing("s").key == b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}'


def test_a_record_comes_back_as_it_was_written() -> None:
    schema = SchemaText(JSON, "{}", (Reference("n", "s", 1),))
    stored = StoredVersion(
        "s", 2, 7, schema, bytes(range(16)), True, {"metadata": {"properties": {"a": "b"}}}
    )
    assert change_of(version_record(stored)) == stored


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b"{}"),
        (b"[]", b"{}"),
        (b'{"keytype":"SCHEMA"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b'{"id":"x","schema":"y"}'),
        (
            b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            b'{"id":1,"schema":"y","references":[1]}',
        ),
        (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"SOME"}'),
        (b'{"keytype":"MODE","magic":0}', b'{"mode":3}'),
        (b'{"keytype":"MODE","magic":0}', b"\xff"),
        (b'{"keytype":"MODE","magic":0}', b"[" * 100_000),
    ],
)
def test_a_record_that_cannot_be_read_is_a_value_error(key: bytes, value: bytes) -> None:
    with pytest.raises(ValueError):
        change_of(RegistryRecord(key, value))
