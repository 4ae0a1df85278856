"""Frames: the size, the header and the message that travel together on a connection.

A frame is a 4-byte size and that many bytes: a header, then the message. Request headers are version 1 (key,
version, correlation id, client id), or 2, with tagged fields at the end, if the message's version is
flexible. Response headers are a correlation id, with tagged fields likewise; except those of ApiVersions,
which never have any, because the client reads them before it knows the broker's versions. Frames are read
here without their size, and written with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error
from typing import Any, Final

from ottla.protocol.apis import DECLARED_APIS, Api, ApiKey, api_of
from ottla.protocol.codec import codec
from ottla.protocol.primitives import DecodeError, skip_tags

SIZE_BYTES: Final = 4

_SIZE: Final = Struct(">i")
_REQUEST_PREFIX: Final = Struct(">ihhih")  # size, key, version, correlation id, length of the client id
_RESPONSE_PREFIX: Final = Struct(">ii")  # size, correlation id
_FLEXIBLE_RESPONSE_PREFIX: Final = Struct(">iix")  # the same, and no tagged fields

_read_request_prefix: Final = Struct(
    ">hhih"
).unpack_from  # key, version, correlation id, length of the client id
_REQUEST_PREFIX_BYTES: Final = 10
_NULL_CLIENT_ID: Final = -1

_NO_VERSIONS: Final = (1, 0)


def _flexible_versions(api: Api) -> tuple[int, int]:
    """The first and last version of an API whose headers have tagged fields."""
    first = api.first_flexible_version
    return _NO_VERSIONS if first is None else (max(api.min_version, first), api.max_version)


# By API key; a version outside its pair has the short header. Unknown keys are not in it.
_FLEXIBLE_REQUESTS: Final = {key: _flexible_versions(api) for key, api in DECLARED_APIS.items()}
_FLEXIBLE_RESPONSES: Final = {
    key: versions for key, versions in _FLEXIBLE_REQUESTS.items() if key != ApiKey.API_VERSIONS
}


@dataclass(slots=True)
class RequestHeader:
    """The header of every request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(view: memoryview, position: int = 0) -> tuple[RequestHeader, int]:
    """The header at `position` and where the message begins. `view` ends with the frame.

    An unknown key or version is no error here: its header is read as version 1, which is enough to answer it.
    """
    try:
        api_key, api_version, correlation_id, length = _read_request_prefix(view, position)
        position += _REQUEST_PREFIX_BYTES
        if length == _NULL_CLIENT_ID:
            client_id = None
        else:
            end = position + length
            if not position <= end <= len(view):
                raise DecodeError(
                    f"the client id announces {length} bytes, but {len(view) - position} are left"
                )
            client_id = view[position:end].tobytes().decode()
            position = end
        first, last = _FLEXIBLE_REQUESTS.get(api_key, _NO_VERSIONS)
        if first <= api_version <= last:
            position = skip_tags(view, position) if view[position] else position + 1
    except (struct_error, IndexError):
        raise DecodeError("the request header ends too early") from None
    except UnicodeDecodeError:
        raise DecodeError("the client id is not UTF-8") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def write_request(header: RequestHeader, request: object, out: bytearray) -> None:
    """Append one whole request frame, size included; a request that cannot be written leaves `out` as it
    was.
    """
    start = len(out)
    client_id = None if header.client_id is None else header.client_id.encode()
    length = _NULL_CLIENT_ID if client_id is None else len(client_id)
    out += _REQUEST_PREFIX.pack(0, header.api_key, header.api_version, header.correlation_id, length)
    out += client_id or b""
    first, last = _FLEXIBLE_REQUESTS.get(header.api_key, _NO_VERSIONS)
    if first <= header.api_version <= last:
        out.append(0)
    try:
        codec(type(request), header.api_version).write(request, out)
    except ValueError:
        del out[start:]
        raise
    _SIZE.pack_into(out, start, len(out) - start - SIZE_BYTES)


def response_frame(correlation_id: int, api_key: int, api_version: int, response: object) -> bytearray:
    """One whole response frame, size included."""
    first, last = _FLEXIBLE_RESPONSES.get(api_key, _NO_VERSIONS)
    prefix = _FLEXIBLE_RESPONSE_PREFIX if first <= api_version <= last else _RESPONSE_PREFIX
    out = bytearray(prefix.pack(0, correlation_id))
    codec(type(response), api_version).write(response, out)
    _SIZE.pack_into(out, 0, len(out) - SIZE_BYTES)
    return out


def read_response(api_key: int, api_version: int, view: memoryview) -> tuple[int, Any]:
    """The correlation id and the message of a response frame, for the one who asked."""
    api = api_of(api_key)
    if api is None or not api.serves(api_version):
        raise DecodeError(f"no response is known for version {api_version} of the API {api_key}")
    first, last = _FLEXIBLE_RESPONSES.get(api_key, _NO_VERSIONS)
    try:
        (correlation_id,) = _SIZE.unpack_from(view, 0)
        position = 4
        if first <= api_version <= last:
            position = skip_tags(view, position)
    except (struct_error, IndexError):
        raise DecodeError("the response header ends too early") from None
    response, end = codec(api.response, api_version).read(view, position)
    if end != len(view):
        raise DecodeError(f"{api.response.__name__} v{api_version}: {len(view) - end} bytes are left over")
    return correlation_id, response
