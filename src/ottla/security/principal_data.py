"""A principal as brokers tell it to each other, beside a client's request (KIP-590): a version, and Kafka's default data."""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.protocol.codec import Boolean, DecodeError, String, decode, encode, record
from ottla.security.principal import Principal

_VERSION: Final = Struct(">h")
_WRITTEN_VERSION: Final = 0


@record(key=-1, versions=(0, 0), flexible=0)
class DefaultPrincipalData:
    type: String = ""
    name: String = ""
    token_authenticated: Boolean = False


def written_principal(principal: Principal) -> bytes:
    """The bytes of a principal."""
    data = DefaultPrincipalData(principal.kind, principal.name)
    return _VERSION.pack(_WRITTEN_VERSION) + bytes(encode(data, _WRITTEN_VERSION))


def read_principal(data: bytes) -> Principal:
    """The principal of these bytes. DecodeError if they are of another version, or of nothing."""
    if len(data) < _VERSION.size or _VERSION.unpack_from(data)[0] != _WRITTEN_VERSION:
        raise DecodeError("the principal is of an unknown version")
    found = decode(DefaultPrincipalData, data[_VERSION.size :], _WRITTEN_VERSION)
    return Principal(found.type, found.name)
