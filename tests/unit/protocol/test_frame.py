"""Headers and frames (WIRE-1, WIRE-2)."""

from __future__ import annotations

import io
import struct

import pytest
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import DecodeError, decode, encode
from ottla.protocol.frame import (
    SIZE_BYTES,
    RequestHeader,
    read_request_header,
    read_response,
    response_frame,
    write_request,
)
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

METADATA = int(ApiKey.METADATA)
API_VERSIONS = int(ApiKey.API_VERSIONS)


def kio_header(
    header: type[HeaderV1] | type[HeaderV2], key: int, version: int, client_id: str | None
) -> bytes:
    out = io.BytesIO()
    written = header(
        request_api_key=i16(key),
        request_api_version=i16(version),
        correlation_id=i32(-7),
        client_id=client_id,
    )
    entity_writer(header)(out, written)
    return out.getvalue()


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "é" * 100])
def test_a_header_is_read_as_others_write_it(client_id: str | None) -> None:
    for version, header in ((8, HeaderV1), (9, HeaderV2)):
        data = kio_header(header, METADATA, version, client_id)
        expected = RequestHeader(METADATA, version, -7, client_id)
        assert read_request_header(memoryview(b"..." + data + b"body"), 3) == (expected, 3 + len(data))


def test_tagged_fields_of_a_header_are_skipped() -> None:
    data = kio_header(HeaderV2, METADATA, 9, "me")[:-1] + bytes.fromhex("02 00 01 aa 05 00")
    assert read_request_header(memoryview(data))[1] == len(data)


@pytest.mark.parametrize(
    ("key", "version"), [(API_VERSIONS, 99), (9999, 0), (-1, -1), (METADATA, 14), (76, 0)]
)
def test_the_header_of_an_unknown_key_or_version_is_read_without_tags(key: int, version: int) -> None:
    data = kio_header(HeaderV1, key, version, "me")
    header, position = read_request_header(memoryview(data + b"\xff\xff\xff"))
    assert (header.api_key, header.api_version, header.client_id) == (key, version, "me")
    assert position == len(data)


@pytest.mark.parametrize("version", [8, 9])
def test_a_header_cut_anywhere_is_refused(version: int) -> None:
    data = kio_header(HeaderV2 if version == 9 else HeaderV1, METADATA, version, "client")
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            read_request_header(memoryview(data[:end]))


@pytest.mark.parametrize("length", [-2, -32768, 100, 32767])
def test_a_client_id_of_impossible_length_is_refused(length: int) -> None:
    with pytest.raises(DecodeError):
        read_request_header(memoryview(struct.pack(">hhih", METADATA, 0, 1, length) + b"abc"))


def test_a_client_id_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(DecodeError):
        read_request_header(memoryview(struct.pack(">hhih", METADATA, 0, 1, 1) + b"\xff"))


@pytest.mark.parametrize("version", range(14))
def test_a_request_frame_is_its_size_its_header_and_its_message(version: int) -> None:
    request = MetadataRequest([MetadataRequestTopic(name="orders")])
    header = RequestHeader(METADATA, version, 42, "me")
    out = bytearray(b"earlier")
    write_request(header, request, out)
    frame = memoryview(out)[len(b"earlier") :]
    assert struct.unpack(">i", frame[:SIZE_BYTES]) == (len(frame) - SIZE_BYTES,)
    read, position = read_request_header(frame[SIZE_BYTES:])
    assert read == header
    assert decode(MetadataRequest, frame[SIZE_BYTES + position :], version) == request


def test_a_request_that_cannot_be_written_leaves_nothing_behind() -> None:
    out = bytearray(b"earlier")
    with pytest.raises(ValueError, match="topics may not be null"):
        write_request(RequestHeader(METADATA, 0, 1, None), MetadataRequest(topics=None), out)
    assert out == b"earlier"


@pytest.mark.parametrize("version", range(14))
def test_a_response_frame_is_read_by_the_one_who_asked(version: int) -> None:
    response = MetadataResponse(controller_id=3) if version else MetadataResponse()
    frame = response_frame(77, METADATA, version, response)
    assert struct.unpack(">i", frame[:SIZE_BYTES]) == (len(frame) - SIZE_BYTES,)
    assert read_response(METADATA, version, memoryview(frame)[SIZE_BYTES:]) == (77, response)
    header_bytes = 4 + (1 if version >= 9 else 0)
    assert frame[SIZE_BYTES + header_bytes :] == encode(response, version)


@pytest.mark.parametrize("version", range(5))
def test_the_response_header_of_api_versions_never_has_tags(version: int) -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4)])
    frame = response_frame(5, API_VERSIONS, version, response)
    assert frame[SIZE_BYTES + 4 :] == encode(response, version)
    assert read_response(API_VERSIONS, version, memoryview(frame)[SIZE_BYTES:]) == (5, response)


def test_the_request_header_of_flexible_api_versions_has_tags() -> None:
    out = bytearray()
    write_request(RequestHeader(API_VERSIONS, 3, 1, None), ApiVersionsRequest("ottla", "1"), out)
    assert out[SIZE_BYTES + 10] == 0
    assert len(out) == SIZE_BYTES + 10 + 1 + len(encode(ApiVersionsRequest("ottla", "1"), 3))


def test_a_response_cut_anywhere_or_too_long_is_refused() -> None:
    frame = memoryview(response_frame(5, METADATA, 12, MetadataResponse()))[SIZE_BYTES:]
    for end in range(len(frame)):
        with pytest.raises(DecodeError):
            read_response(METADATA, 12, frame[:end])
    with pytest.raises(DecodeError):
        read_response(METADATA, 12, memoryview(bytes(frame) + b"\0"))


@pytest.mark.parametrize(("key", "version"), [(9999, 0), (METADATA, 14), (METADATA, -1), (0, 0)])
def test_a_response_of_an_unknown_key_or_version_is_refused(key: int, version: int) -> None:
    with pytest.raises(DecodeError):
        read_response(key, version, memoryview(bytes(100)))
