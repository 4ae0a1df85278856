"""Which version of each API a client and a broker speak with each other.

A connection begins with ApiVersions. `negotiation` decides in which versions to ask it, `OfferedVersions`
keeps the broker's answer. Neither reads nor writes: the asyncio connection and the blocking one both use this
module.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.apis import APIS, DECLARED_APIS, OWN_APIS, ApiKey
from ottla.protocol.messages.api_versions import (
    REMOTE_SEGMENTS_FEATURE,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from ottla.version import __version__

API_VERSIONS_REQUEST: Final = ApiVersionsRequest(
    client_software_name="ottla", client_software_version=__version__
)
# Asked of brokers that may not be Ottla's, or older ones: those that serve it announce a feature.
_FEATURE_OF_OWN: Final[Mapping[int, str]] = {ApiKey.LIST_REMOTE_SEGMENTS: REMOTE_SEGMENTS_FEATURE}


class VersionRange(NamedTuple):
    """The versions of one API that a broker serves."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """The feature levels of a cluster, as one of its brokers knows them. A higher epoch is newer (KIP-584)."""

    epoch: int = -1
    levels: Mapping[str, int] = field(default_factory=dict)


class OfferedVersions:
    """The versions that the broker `peer` serves, by API. Without an answer to ApiVersions, none."""

    __slots__ = ("_peer", "_ranges", "features", "supported_features")

    def __init__(self, peer: str, response: ApiVersionsResponse | None = None) -> None:
        self._peer = peer
        keys = () if response is None else response.api_keys
        self._ranges = {each.api_key: VersionRange(each.min_version, each.max_version) for each in keys}
        self.features = FinalizedFeatures() if response is None else _features(response)
        supported = () if response is None else response.supported_features
        self.supported_features = frozenset(each.name for each in supported)

    def of(self, api_key: int) -> VersionRange | None:
        """The versions of one API; None if the broker does not know the API."""
        return self._ranges.get(api_key)

    def common(self, api_key: int, *, at_least: int = 0, at_most: int | None = None) -> int:
        """The highest version that both sides speak within the given bounds.

        Raises KafkaError(UNSUPPORTED_VERSION) if there is none.
        """
        ours, theirs = DECLARED_APIS[api_key], self._ranges.get(api_key)
        if theirs is None and api_key in OWN_APIS:
            # Not advertised, and in one version only: a broker that is not Ottla ends the connection.
            needed = _FEATURE_OF_OWN.get(api_key)
            if needed is None or needed in self.supported_features:
                return ours.max_version
        if theirs is None:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{self._peer} does not serve {ApiKey(api_key).name}"
            )
        our_first = max(ours.min_version, at_least)
        our_last = ours.max_version if at_most is None else min(ours.max_version, at_most)
        highest = min(our_last, theirs.last)
        if highest < max(our_first, theirs.first):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self._peer} serves {ApiKey(api_key).name} v{theirs.first} to v{theirs.last}, "
                f"this client speaks v{our_first} to v{our_last}",
            )
        return highest


def _features(response: ApiVersionsResponse) -> FinalizedFeatures:
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    return FinalizedFeatures(response.finalized_features_epoch, levels)


def negotiation(peer: str) -> Generator[int, ApiVersionsResponse, OfferedVersions]:
    """Yields the versions in which to ask ApiVersions, is sent the responses, returns the broker's offer.

    The newest version comes first. A broker that does not know it names its own newest version, which is
    asked next. Raises KafkaError if the broker refuses.
    """
    newest = APIS[ApiKey.API_VERSIONS].max_version
    response = yield newest
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        theirs = (each.max_version for each in response.api_keys if each.api_key == ApiKey.API_VERSIONS)
        response = yield min(newest, max(next(theirs, 0), 0))
    if response.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(response.error_code), f"{peer} refused to tell its versions")
    return OfferedVersions(peer, response)


def body_version(version: int, frame: memoryview) -> int:
    """The version in which an ApiVersions response is written.

    A broker that does not know the version of the request answers error 35 in a body of version 0.
    """
    error_code = int.from_bytes(frame[4:6], "big", signed=True)
    return 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else version
