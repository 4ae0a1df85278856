"""Random messages mean the same to two codecs that others wrote, in both directions (WIRE-1)."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.declared import declared_versions, is_our_own, version_id
from tests.conformance.foreign import ForeignCodec, KafkaPython, Kio, ours
from tests.conformance.strategies import Narrowing, messages

from ottla.errors import ErrorCode
from ottla.protocol.apis import CLIENT_METRICS_APIS, DECLARED_APIS, INTERNAL_APIS, QUORUM_APIS, ApiKey
from ottla.protocol.codec import decode, encode
from ottla.protocol.layout import Field

EXAMPLES = 10  # of each of some 170 messages and versions, so that the whole stays within seconds

quick = settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)

KIO = Kio()
KAFKA_PYTHON = KafkaPython()

# kio holds points in time as datetimes: the year 9999 is the last, and -1 is none where Kafka's default is -1.
_LAST_DATETIME_MS = 253_402_300_799_000
# Time spans go through a float there: beyond this many milliseconds it loses some.
_LONGEST_SPAN_MS = 2**40


_MOMENTS = {
    "transaction_start_time_ms",
    "issue_timestamp_ms",
    "expiry_timestamp_ms",
    "max_timestamp_ms",
    "issue_timestamp",
    "expiry_timestamp",
    "max_timestamp",
}
_SPANS = {"retention_time_ms", "max_lifetime_ms", "renew_period_ms", "expiry_time_period_ms"}


def what_kio_can_hold(field: Field) -> st.SearchStrategy[Any] | None:
    """kio knows error codes by name only, times as datetimes of whole milliseconds, and no field of ours."""
    if is_our_own(field):
        return st.just(field.default)
    if field.name.endswith("error_code"):
        return st.sampled_from([int(code) for code in ErrorCode])
    if field.name == "log_append_time_ms":
        return st.just(-1) | st.integers(0, _LAST_DATETIME_MS)
    if field.name in _MOMENTS:
        return st.integers(0, _LAST_DATETIME_MS)
    if field.name in _SPANS:
        return st.integers(-1, _LONGEST_SPAN_MS)
    return None


@cache
def what_kafka_python_can_read(cls: Any) -> Narrowing:
    """kafka-python reads an ApiVersionsResponse with any error as version 0, whatever version it asked for.

    That is right for UNSUPPORTED_VERSION only, which brokers answer in version 0 (KIP-511); so no errors
    here.
    """

    def narrow(field: Field) -> st.SearchStrategy[Any] | None:
        if is_our_own(field):
            return st.just(field.default)
        if cls.__name__ == "ApiVersionsResponse" and field.name == "error_code":
            return st.just(0)
        return None

    return narrow


def pairs_of(foreign: ForeignCodec) -> list[tuple[type[Any], int]]:
    return [(cls, version) for cls, version in declared_versions() if foreign.has(cls, version)]


def assert_same_meaning(foreign: ForeignCodec, cls: Any, version: int, message: Any) -> None:
    data = bytes(encode(message, version))
    theirs = foreign.decode(cls, version, data)
    assert ours(cls, version, theirs) == message
    their_data = foreign.encode(cls, version, theirs)
    assert decode(cls, their_data, version) == message
    assert their_data == data


@pytest.mark.parametrize(("cls", "version"), pairs_of(KIO), ids=version_id)
@quick
@given(data=st.data())
def test_kio_reads_what_we_write_and_we_read_what_it_writes(
    cls: Any, version: int, data: st.DataObject
) -> None:
    assert_same_meaning(KIO, cls, version, data.draw(messages(cls, version, what_kio_can_hold)))


@pytest.mark.parametrize(("cls", "version"), pairs_of(KAFKA_PYTHON), ids=version_id)
@quick
@given(data=st.data())
def test_kafka_python_reads_what_we_write_and_we_read_what_it_writes(
    cls: Any, version: int, data: st.DataObject
) -> None:
    assert_same_meaning(
        KAFKA_PYTHON, cls, version, data.draw(messages(cls, version, what_kafka_python_can_read(cls)))
    )


@pytest.mark.parametrize(("cls", "version"), declared_versions(), ids=version_id)
@quick
@given(data=st.data())
def test_what_was_written_is_read_back(cls: Any, version: int, data: st.DataObject) -> None:
    message = data.draw(messages(cls, version))
    assert decode(cls, encode(message, version), version) == message


def test_both_codecs_know_nearly_everything_we_declare() -> None:
    wire = {
        cls.__name__
        for cls, _ in declared_versions()
        if cls.__module__.startswith("ottla.protocol.") and not cls.__module__.endswith(".remote_logs")
    }
    assert {cls.__name__ for cls, _ in pairs_of(KIO)} >= wire
    # kafka-python is a client: it knows nothing of what brokers and voters tell each other, nor how one is
    # added or given up. It has no delegation tokens and pushes no metrics, either.
    internal = {api.key for api in (*INTERNAL_APIS.values(), *QUORUM_APIS.values())}
    of_nodes = (ApiKey.UNREGISTER_BROKER, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER)
    of_tokens = [key for key in ApiKey if key.name.endswith("_DELEGATION_TOKEN")]
    unknown = {
        cls.__name__
        for key in (*internal, *of_nodes, *of_tokens, *CLIENT_METRICS_APIS)
        for cls in (DECLARED_APIS[key].request, DECLARED_APIS[key].response)
    }
    known = {cls.__name__ for cls, _ in pairs_of(KAFKA_PYTHON)}
    assert known & wire == wire - unknown
