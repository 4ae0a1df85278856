"""Incremental fetch sessions, as KIP-227 describes them (WIRE-6)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.replication import fetch_session
from ottla.replication.fetch_session import EVICTION_MS, FetchContext, FetchSessions, next_epoch

VERSION = 12
TOPIC_ID = UUID(int=7 << 64)
Partitions = tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Result:
    topic: str
    topic_id: UUID
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    high_watermark: int = 10
    log_start_offset: int = 0
    diverging_epoch: int = -1
    preferred_read_replica: int = -1
    size_bytes: int = 0


def sessions(slots: int = 10, ids: Iterator[int] | None = None) -> FetchSessions:
    drawn = ids if ids is not None else count(100)
    return FetchSessions(slots, lambda: next(drawn))


def request(
    session_id: int, epoch: int, *wanted: tuple[str, int], offset: int = 0, forget: Partitions = ()
) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)],
            )
            for topic, index in wanted
        ],
        forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=[index]) for topic, index in forget],
    )


def resolved(
    cache: FetchSessions, fetch: FetchRequest, now_ms: int = 0, version: int = VERSION
) -> FetchContext:
    context = cache.resolve(fetch, version, now_ms)
    assert isinstance(context, FetchContext)
    return context


def names(context: FetchContext) -> list[tuple[str, int]]:
    return [(want.topic, want.partition) for want in context.partitions]


def quiet(context: FetchContext) -> list[Result]:
    return [Result(want.topic, want.topic_id, want.partition) for want in context.partitions]


def begun(cache: FetchSessions, *wanted: tuple[str, int], now_ms: int = 0) -> int:
    context = resolved(cache, request(0, 0, *wanted), now_ms)
    context.filter(quiet(context))
    return context.session_id


def test_a_fetch_without_a_session_is_answered_whole_and_remembered_nowhere() -> None:
    cache = sessions()
    context = resolved(cache, request(0, -1, ("a", 0), ("b", 1), offset=5))
    assert names(context) == [("a", 0), ("b", 1)]
    assert context.partitions[0].fetch_offset == 5
    results = quiet(context)
    assert context.filter(results) is results
    assert (context.session_id, len(cache)) == (0, 0)


def test_a_first_fetch_begins_a_session_and_is_answered_whole() -> None:
    cache = sessions()
    context = resolved(cache, request(0, 0, ("a", 0), ("a", 1)))
    assert context.session_id == 100
    assert context.filter(quiet(context)) == quiet(context)
    assert len(cache) == 1


def test_an_empty_incremental_fetch_means_all_partitions_of_the_session() -> None:
    cache = sessions()
    session_id = begun(cache, ("a", 0), ("a", 1))
    context = resolved(cache, request(session_id, 1))
    assert names(context) == [("a", 0), ("a", 1)]
    assert context.session_id == session_id
    assert context.filter(quiet(context)) == []


def test_an_answer_tells_what_is_new_and_nothing_else() -> None:
    cache = sessions()
    session_id = begun(cache, ("a", 0), ("a", 1), ("a", 2), ("a", 3), ("a", 4), ("a", 5), ("a", 6))
    context = resolved(cache, request(session_id, 1))
    results = quiet(context)
    results[0].size_bytes = 9
    results[1].high_watermark = 11
    results[2].log_start_offset = 3
    results[3].error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    results[4].diverging_epoch = 2
    results[5].preferred_read_replica = 3
    assert context.filter(results) == results[:6]


def test_the_end_of_an_error_is_news_even_if_nothing_moved() -> None:
    cache = sessions()
    session_id = begun(cache, ("a", 0))
    context = resolved(cache, request(session_id, 1))
    failed = [replace(result, error_code=ErrorCode.KAFKA_STORAGE_ERROR) for result in quiet(context)]
    assert context.filter(failed) == failed
    context = resolved(cache, request(session_id, 2))
    assert context.filter(quiet(context)) == quiet(context)
    context = resolved(cache, request(session_id, 3))
    assert context.filter(quiet(context)) == []


def test_partitions_that_gave_records_go_to_the_end_of_the_line() -> None:
    cache = sessions()
    session_id = begun(cache, ("a", 0), ("a", 1), ("a", 2))
    context = resolved(cache, request(session_id, 1))
    results = quiet(context)
    results[0].size_bytes = 9
    context.filter(results)
    assert names(resolved(cache, request(session_id, 2))) == [("a", 1), ("a", 2), ("a", 0)]


def test_an_incremental_fetch_adds_moves_and_forgets_partitions() -> None:
    cache = sessions()
    session_id = begun(cache, ("a", 0), ("a", 1))
    changed = request(session_id, 1, ("a", 1), ("b", 0), offset=8, forget=(("a", 0), ("zzz", 9)))
    context = resolved(cache, changed)
    assert names(context) == [("a", 1), ("b", 0)]
    assert [want.fetch_offset for want in context.partitions] == [8, 8]
    assert [result.topic for result in context.filter(quiet(context))] == ["b"]


def test_a_session_whose_partitions_are_all_forgotten_ends() -> None:
    cache = sessions()
    session_id = begun(cache, ("a", 0))
    context = resolved(cache, request(session_id, 1, forget=(("a", 0),)))
    assert (context.session_id, list(context.partitions), len(cache)) == (0, [], 0)


def test_an_unknown_session_and_a_wrong_epoch_are_refused() -> None:
    cache = sessions()
    session_id = begun(cache, ("a", 0))
    assert cache.resolve(request(77, 1), VERSION, 0) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.resolve(request(0, 1), VERSION, 0) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.resolve(request(session_id, 2), VERSION, 0) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.resolve(request(session_id, -7), VERSION, 0) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert resolved(cache, request(session_id, 1)).session_id == session_id


def test_a_session_by_name_cannot_go_on_by_topic_id_nor_the_other_way() -> None:
    cache = sessions()
    by_name = begun(cache, ("a", 0))
    assert cache.resolve(request(by_name, 1), 13, 0) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    fetch = FetchRequest(
        session_epoch=0, topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition()])]
    )
    by_id = resolved(cache, fetch, version=13)
    assert by_id.partitions[0].topic_id == TOPIC_ID
    wrong = cache.resolve(request(by_id.session_id, 1), 12, 0)
    assert wrong == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert resolved(cache, request(by_id.session_id, 1), version=13).partitions == by_id.partitions


def test_epoch_zero_with_an_id_replaces_the_session_and_minus_one_closes_it() -> None:
    cache = sessions()
    old = begun(cache, ("a", 0))
    new = resolved(cache, request(old, 0, ("b", 0)))
    assert new.session_id not in (0, old)
    assert cache.resolve(request(old, 1), VERSION, 0) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    closed = resolved(cache, request(new.session_id, -1, ("b", 0)))
    assert (closed.session_id, names(closed), len(cache)) == (0, [("b", 0)], 0)


def test_an_epoch_wraps_to_one_never_to_zero() -> None:
    assert [next_epoch(0), next_epoch(1), next_epoch(2**31 - 1)] == [1, 2, 1]


def test_a_full_cache_refuses_sessions_until_one_was_idle_for_two_minutes() -> None:
    cache = sessions(slots=2)
    idle = begun(cache, ("a", 0), now_ms=0)
    busy = begun(cache, ("a", 0), now_ms=0)
    resolved(cache, request(busy, 1), now_ms=EVICTION_MS)
    assert begun(cache, ("c", 0), now_ms=EVICTION_MS) == 0
    assert begun(cache, ("c", 0), now_ms=EVICTION_MS + 1) > 0
    assert cache.resolve(request(idle, 1), VERSION, 0) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert resolved(cache, request(busy, 2)).session_id == busy


def test_no_slots_means_no_sessions() -> None:
    assert begun(sessions(slots=0), ("a", 0)) == 0


def test_an_id_that_is_taken_or_not_positive_is_drawn_again() -> None:
    cache = sessions(ids=iter([5, -1, 0, 5, 6]))
    assert [begun(cache, ("a", 0)), begun(cache, ("a", 0))] == [5, 6]


def test_sessions_are_refused_beyond_the_bound_on_remembered_partitions() -> None:
    cache = sessions()
    many = tuple(("a", index) for index in range(fetch_session.CACHED_PARTITIONS_MAX))
    large = begun(cache, *many)
    assert large > 0
    assert begun(cache, ("b", 0)) == 0
    grown = resolved(cache, request(large, 1, ("b", 0)))
    assert (grown.session_id, len(grown.partitions)) == (0, len(many) + 1)
    assert begun(cache, ("b", 0)) > 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.booleans()), max_size=30))
def test_a_session_holds_what_a_client_that_repeats_itself_would_ask_for(
    changes: list[tuple[str, int, bool]],
) -> None:
    cache = sessions()
    session_id, epoch = begun(cache, ("z", 0)), 1
    model = {("z", 0): 0}
    for offset, (topic, index, forget) in enumerate(changes):
        if forget:
            context = resolved(cache, request(session_id, epoch, forget=((topic, index),)))
            model.pop((topic, index), None)
        else:
            context = resolved(cache, request(session_id, epoch, (topic, index), offset=offset))
            model[topic, index] = offset
        assert {(want.topic, want.partition): want.fetch_offset for want in context.partitions} == model
        assert all(want.topic_id == ZERO_UUID for want in context.partitions)
        epoch += 1
