from __future__ import annotations

import random
from uuid import UUID

from ottla.client.fetching.plan.fetch_session import FetchSession, SessionPartition
from ottla.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse
from ottla.replication.fetch_session import FetchSessions

ID, OTHER_ID = UUID(int=7), UUID(int=8)


def wanted(**offsets: int) -> dict[SessionPartition, FetchPartition]:
    """`p0=5`: partition 0 of topic t, from offset 5."""
    return {
        SessionPartition(ID, "t", int(name[1:])): FetchPartition(partition=int(name[1:]), fetch_offset=offset)
        for name, offset in offsets.items()
    }


def sent(session: FetchSession, **offsets: int) -> tuple[int, int, dict[int, int], list[int]]:
    """Session, epoch, the partitions that are named with their offsets, and those that are forgotten."""
    request = session.request(wanted(**offsets))
    named = {each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions}
    forgotten = [each for topic in request.forgotten for each in topic.partitions]
    return request.session_id, request.session_epoch, named, forgotten


def test_the_first_request_names_everything_and_later_ones_what_changed() -> None:
    session = FetchSession()
    assert sent(session, p0=5, p1=6) == (0, 0, {0: 5, 1: 6}, [])
    session.answered(FetchResponse(session_id=9))
    assert sent(session, p0=7, p1=6) == (9, 1, {0: 7}, [])
    session.answered(FetchResponse(session_id=9))
    assert sent(session, p0=7, p1=6) == (9, 2, {}, [])
    session.answered(FetchResponse(session_id=9))
    assert sent(session, p1=6, p2=0) == (9, 3, {2: 0}, [0])


def test_a_broker_without_room_is_told_everything_each_time() -> None:
    session = FetchSession()
    for _ in range(3):
        assert sent(session, p0=5) == (0, 0, {0: 5}, [])
        session.answered(FetchResponse(session_id=0))


def test_a_request_without_an_answer_ends_the_session_and_the_broker_hears_which() -> None:
    session = FetchSession()
    sent(session, p0=5)
    session.answered(FetchResponse(session_id=9))
    sent(session, p0=6)
    session.restart()
    assert sent(session, p0=6) == (9, 0, {0: 6}, [])


def test_a_broker_that_forgot_the_session_gets_a_new_one() -> None:
    session = FetchSession()
    sent(session, p0=5)
    session.answered(FetchResponse(session_id=9))
    sent(session, p0=6)
    session.answered(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    assert sent(session, p0=6) == (0, 0, {0: 6}, [])
    session.answered(FetchResponse(session_id=10))
    sent(session, p0=7)
    session.answered(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
    assert sent(session, p0=7) == (10, 0, {0: 7}, [])


def test_a_topic_that_was_made_again_is_another_one() -> None:
    session = FetchSession()
    session.request(wanted(p0=5))
    session.answered(FetchResponse(session_id=9))
    request = session.request({SessionPartition(OTHER_ID, "t", 0): FetchPartition(fetch_offset=5)})
    assert [topic.topic_id for topic in request.topics] == [OTHER_ID]
    assert [topic.topic_id for topic in request.forgotten] == [ID]


def test_the_epochs_begin_again_after_the_last() -> None:
    session = FetchSession()
    session.request(wanted(p0=1))
    session.answered(FetchResponse(session_id=9))
    session._epoch = 2**31 - 1
    assert sent(session, p0=2)[1] == 2**31 - 1
    session.answered(FetchResponse(session_id=9))
    assert sent(session, p0=3)[1] == 1


def test_our_broker_fetches_exactly_what_is_wanted_whatever_happens() -> None:
    """The two halves of KIP-227 that are in this house, at random."""
    for seed in range(30):
        rnd, session, now = random.Random(seed), FetchSession(), 0
        broker = FetchSessions(2, lambda rnd=rnd: rnd.randrange(1, 1_000))  # type: ignore[misc]
        for _ in range(40):
            now += 1_000
            offsets = {f"p{n}": rnd.randrange(3) for n in rnd.sample(range(6), rnd.randint(1, 6))}
            part = session.request(wanted(**offsets))
            request = FetchRequest(
                session_id=part.session_id,
                session_epoch=part.session_epoch,
                topics=part.topics,
                forgotten_topics_data=part.forgotten,
            )
            fetch = broker.resolve(request, 17, now)
            if rnd.random() < 0.1:
                session.restart()
            elif isinstance(fetch, ErrorCode):
                session.answered(FetchResponse(error_code=fetch))
            else:
                asked = {f"p{each.partition}": each.fetch_offset for each in fetch.partitions}
                assert asked == offsets, f"seed {seed}"
                session.answered(FetchResponse(session_id=fetch.session_id))
