"""The machine as a whole: whatever it hears, it answers, and it never promises two things."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.quorum.model_disk import Entry
from tests.unit.raft.members import Member, key

from ottla.errors import ErrorCode
from ottla.model import EpochEnd
from ottla.raft.events import (
    Answered,
    AppendLeaderChange,
    AppendRecords,
    Disconnected,
    Flush,
    Flushed,
    Halt,
    Leave,
    LogChanged,
    PersistVote,
    Received,
    Reply,
    ReplyRecords,
    ReplySnapshot,
    ResetLog,
    Send,
    SnapshotReady,
    Tick,
    TruncateTo,
    Unanswered,
    VotePersisted,
)
from ottla.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    SnapshotId,
    Vote,
    VoteAnswer,
)

NODES = st.integers(1, 4)
EPOCHS = st.integers(0, 6)
OFFSETS = st.integers(0, 8)
KEYS = NODES.map(key)
REQUESTS: list[st.SearchStrategy[Any]] = [
    st.builds(Vote, st.just(1), EPOCHS, KEYS, EPOCHS, OFFSETS, st.booleans()),
    st.builds(BeginEpoch, st.just(1), EPOCHS, NODES),
    st.builds(EndEpoch, EPOCHS, NODES, st.lists(KEYS, max_size=3).map(tuple)),
    st.builds(Fetch, KEYS, st.booleans(), EPOCHS, OFFSETS, EPOCHS, OFFSETS, st.just(500), st.just(1000)),
    st.builds(FetchSnapshot, KEYS, EPOCHS, st.builds(SnapshotId, OFFSETS, EPOCHS), OFFSETS, st.just(9)),
]
TURNS = st.one_of(
    st.tuples(st.just("ask"), st.one_of(REQUESTS)),
    st.tuples(st.just("vote"), st.booleans()),
    st.tuples(st.just("records"), st.integers(0, 3)),
    st.tuples(st.just("cut"), OFFSETS),
    st.tuples(st.just("wait"), st.sampled_from((1, 30, 600, 2_500))),
    st.tuples(st.just("done"), st.sampled_from(("persist", "flush", "lost", "leave", "dead", "snapshot"))),
)


class Shell:
    """Carries out what is asked for, in the order of the rules, and counts what is answered."""

    def __init__(self) -> None:
        self.member = Member()
        self.open: list[Send] = []
        self.persisting: list[int] = []
        self.is_flushing = False
        self.tickets = 0
        self.answered: list[int] = []
        self.is_halted = False
        self.promises: dict[int, Any] = {}
        self.questions: dict[int, Any] = {}

    def hear(self, event: Any) -> None:
        before = self.member.replica.epoch
        effects = self.member.hear(event)
        assert self.member.replica.epoch >= before
        is_changed = False
        for effect in effects:
            is_changed |= self.do(effect)
        if is_changed:
            self.hear(LogChanged())

    def do(self, effect: Any) -> bool:
        log = self.member.log
        match effect:
            case Send():
                self.open.append(effect)
            case PersistVote():
                self.persisting.append(effect.number)
            case Flush():
                assert not self.is_flushing
                self.is_flushing = True
                log.begin_flush()
            case Reply() | ReplyRecords() | ReplySnapshot():
                self.answered.append(effect.ticket)
                self.note(effect)
            case AppendLeaderChange():
                log.append(Entry(effect.epoch, 0))
            case AppendRecords():
                log.append(Entry(self.member.replica.epoch, 0))
            case TruncateTo():
                assert self.member.replica.high_watermark <= effect.offset < log.log_end_offset
                log.truncate(effect.offset)
            case ResetLog():
                log.reset(effect.snapshot_id)
            case Halt():
                self.is_halted = True
        return isinstance(effect, AppendLeaderChange | AppendRecords | TruncateTo | ResetLog)

    def note(self, effect: Any) -> None:
        """A vote is for one candidate in its epoch."""
        request = self.questions[effect.ticket]
        answer = getattr(effect, "answer", None)
        if isinstance(answer, VoteAnswer) and answer.is_granted and not request.is_pre_vote:
            assert self.promises.setdefault(request.epoch, request.candidate) == request.candidate

    def turn(self, kind: str, detail: Any) -> None:
        replica = self.member.replica
        if kind == "ask":
            self.tickets += 1
            self.questions[self.tickets] = detail
            self.hear(Received(self.tickets, detail))
        elif kind == "wait":
            self.member.now_ms += detail
            self.hear(Tick())
        elif kind == "done":
            self.finish(detail)
        elif self.open:
            send = self.open.pop(0)
            answer: Any = VoteAnswer(ErrorCode.NONE, replica.epoch, None, bool(detail))
            if isinstance(send.request, Fetch):
                diverging = EpochEnd(replica.epoch, detail) if kind == "cut" else None
                records = b"x" if kind == "records" and detail else b""
                answer = FetchAnswer(
                    ErrorCode.NONE, replica.epoch, replica.leader_id, detail, 0, diverging, None, records
                )
            self.hear(Answered(send.request_id, answer))

    def finish(self, what: str) -> None:
        match what:
            case "persist" if self.persisting:
                self.hear(VotePersisted(self.persisting.pop(0)))
            case "flush" if self.is_flushing:
                self.is_flushing = False
                self.member.log.end_flush()
                self.hear(Flushed())
            case "lost" if self.open:
                self.hear(Unanswered(self.open.pop().request_id))
            case "leave":
                self.hear(Leave())
            case "dead":
                self.hear(Disconnected(2))
            case "snapshot":
                self.hear(SnapshotReady(1))


@settings(max_examples=150, deadline=None)
@given(st.lists(TURNS, max_size=60))
def test_whatever_it_hears_it_answers_once_and_promises_once(turns: list[tuple[str, Any]]) -> None:
    shell = Shell()
    for kind, detail in turns:
        shell.turn(kind, detail)
        if shell.is_halted:
            return  # a lying leader was found out
    # Nobody is left waiting: whatever is held or parked is answered once the disk is done and the time is
    # over.
    while shell.persisting:
        shell.finish("persist")
    shell.turn("wait", 500)
    while shell.persisting:
        shell.finish("persist")
    assert sorted(shell.answered) == list(range(1, shell.tickets + 1)) or shell.is_halted
