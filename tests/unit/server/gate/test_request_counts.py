"""Requests, their times and their errors are counted by API (OPS-2)."""

from ottla.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.groups import HeartbeatResponse
from ottla.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.server.gate.request_counts import RequestCounts, error_codes
from ottla.server.gate.session import Session

SESSION = Session("PLAINTEXT", "127.0.0.1", 50000, client_id="shop")


def committed(*codes: int) -> OffsetCommitResponse:
    partitions = [OffsetCommitResponsePartition(index, code) for index, code in enumerate(codes)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("orders", partitions=partitions)])


def test_the_parts_of_a_time_add_up_and_requests_of_one_read_count_each() -> None:
    times = RequestCounts().of(ApiKey.PRODUCE)
    times.answered(4, 10.0, 10.125, 10.375, SESSION)
    times.waited(1, 20.0, 20.0, 20.25, 20.75, SESSION)
    assert (times.queue_s, times.handling_s, times.waiting_s) == (0.5, 0.5, 0.5)
    assert times.histogram.count == 5
    assert [(slow.requests, slow.total_us) for slow in times.slowest.all] == [(1, 750_000), (4, 375_000)]
    slow = times.slowest.all[0]
    assert (slow.queue_us, slow.handling_us, slow.waiting_us, slow.client_id) == (0, 250_000, 500_000, "shop")


def test_errors_are_found_in_an_answer_and_in_its_parts() -> None:
    assert list(error_codes(HeartbeatResponse(0, ErrorCode.REBALANCE_IN_PROGRESS))) == [27]
    assert sorted(error_codes(committed(0, 3, 0, 25))) == [3, 25]
    assert list(error_codes(committed(0, 0))) == []
    assert 90 < len(list(error_codes(committed(*[3] * 5000)))) < 100


def test_keys_that_clients_invent_share_one_entry() -> None:
    requests = RequestCounts()
    assert requests.of(-7) is requests.of(31999)
    assert requests.all == []
    requests.of(31999).failed(ErrorCode.UNSUPPORTED_VERSION)
    assert [each.api for each in requests.all] == ["UNKNOWN"]


def test_a_raw_token_of_a_login_counts_as_the_request_it_would_be() -> None:
    requests = RequestCounts()
    assert requests.of_stranger(b"\x00user\x00secret", is_raw=True).api == "SASL_AUTHENTICATE"
    assert requests.of_stranger(b"\x00\x12\x00\x03", is_raw=False).api == "API_VERSIONS"
    assert requests.of_stranger(b"", is_raw=False).api == "PRODUCE"


def test_slow_requests_are_forgotten_after_a_while() -> None:
    requests = RequestCounts()
    requests.of(ApiKey.FETCH).waited(1, 1.0, 1.0, 1.0, 2.0, SESSION)
    requests.forget_slow(before_s=1.5)
    assert len(requests.of(ApiKey.FETCH).slowest.all) == 1
    requests.forget_slow(before_s=2.5)
    assert requests.of(ApiKey.FETCH).slowest.all == []
