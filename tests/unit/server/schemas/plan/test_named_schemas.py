"""Which schemas the records of a batch name, and which batches are refused for it: GTW-4."""

from __future__ import annotations

import struct
import zlib

import pytest
from crc32c import crc32c

from ottla.config import BrokerConfig, TopicConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.log.batch_validation import RefusedRecordsError
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.record import Header, Record
from ottla.schemas.registry.registered import RegisteredSchemas
from ottla.schemas.registry.values import StoredVersion
from ottla.schemas.schema import SchemaText
from ottla.schemas.wire_format import guid_header
from ottla.server.schemas.plan.named_schemas import Named, named_schemas, refusal

GUID = "00112233-4455-6677-8899-aabbccddeeff"


def config(**given: str) -> TopicConfig:
    names = {name.replace("_", "."): value for name, value in given.items()}
    return TopicConfig.resolve(BrokerConfig(), names)


VALUES = config(schema_validation="true")
BOTH = config(schema_validation="true", schema_validation_keys="true")


def by_id(schema_id: int) -> bytes:
    return struct.pack(">bi", 0, schema_id) + b"data"


def record(value: bytes | None, key: bytes | None = None, headers: tuple[Header, ...] = ()) -> Record:
    return Record(0, 0, key, value, headers)


def batch(*records: Record, compression: Compression = Compression.NONE) -> memoryview:
    made = [each._replace(offset=offset) for offset, each in enumerate(records)]
    return memoryview(build_batch(made, compression=compression))


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
def test_records_name_schemas_in_their_values_and_headers(compression: Compression) -> None:
    header = guid_header("value", GUID)
    records = batch(
        record(by_id(7)), record(by_id(8), headers=(("x", b""),)), record(b"", headers=(header,)), record(by_id(7)),
        compression=compression,
    )  # fmt: skip
    assert named_schemas(records, "t", VALUES) == {
        Named(7, "t-value"): [0, 3],
        Named(8, "t-value"): [1],
        Named(GUID, "t-value"): [2],
    }


def test_keys_are_looked_at_where_the_topic_demands_it() -> None:
    records = batch(record(by_id(7), by_id(9)), record(None, by_id(9)), record(by_id(7)))
    assert named_schemas(records, "t", VALUES) == {Named(7, "t-value"): [0, 2]}
    found = named_schemas(records, "t", BOTH)
    assert found == {Named(9, "t-key"): [0, 1], Named(7, "t-value"): [0, 2]}


def test_any_subject_will_do_where_the_topic_says_so() -> None:
    anywhere = config(schema_validation="true", schema_validation_subjects="any")
    assert named_schemas(batch(record(by_id(7))), "t", anywhere) == {Named(7, None): [0]}


@pytest.mark.parametrize("value", [b"", b"\0\0\0\1", b"\1" + bytes(20), b'{"json": 1}'])
def test_a_record_that_names_no_schema_is_refused(value: bytes) -> None:
    with pytest.raises(RefusedRecordsError) as refused:
        named_schemas(batch(record(by_id(7)), record(value), record(value, b"k")), "t", BOTH)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert [place for place, _ in refused.value.records] == [1, 2, 2]


def test_what_the_log_refuses_is_left_to_the_log() -> None:
    small = config(schema_validation="true", max_message_bytes="80")
    assert named_schemas(batch(record(b"x" * 100)), "t", small) == {}
    damaged = batch(record(by_id(7)))
    damaged[-1] ^= 1
    with pytest.raises(KafkaError) as refused:
        named_schemas(damaged, "t", VALUES)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(KafkaError) as refused:
        named_schemas(memoryview(bytearray(b"no batch")), "t", VALUES)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_records_that_do_not_decode_are_refused() -> None:
    header = batch(record(by_id(7)))[:61]
    broken = memoryview(bytearray(header) + b"\xff" * 30)
    struct.pack_into(">i", broken, 8, len(broken) - 12)
    struct.pack_into(">I", broken, 17, crc32c(broken[21:]))
    with pytest.raises(KafkaError) as refused:
        named_schemas(broken, "t", VALUES)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_a_bomb_is_not_blown_up() -> None:
    """A megabyte that would become gigabytes: the limit of every reader holds here, too."""
    bomb = zlib.compress(bytes(200 << 20), 9, wbits=31)
    header = batch(record(by_id(7)))[:61]
    made = memoryview(bytearray(header) + bomb)
    made[22] = Compression.GZIP
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    with pytest.raises(KafkaError) as refused:
        named_schemas(made, "t", VALUES)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_a_refusal_names_every_record_whose_schema_is_not_registered() -> None:
    schemas = RegisteredSchemas()
    schema = SchemaText("AVRO", '"int"')
    schemas.replay(StoredVersion("t-value", 1, 7, schema, schema.digest))
    named = named_schemas(batch(record(by_id(8)), record(by_id(7)), record(by_id(8))), "t", VALUES)
    refused = refusal(named, schemas)
    assert refused is not None
    reason = "the schema 8 is not registered under t-value"
    assert refused.message == reason
    assert refused.records == ((0, reason), (2, reason))
    assert refusal(named_schemas(batch(record(by_id(7))), "t", VALUES), schemas) is None
