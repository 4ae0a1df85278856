"""What is true of votes, looked at when a vote leaves its voter.

- A vote is on the disk before it is said: a loss of power at that moment would not take it back.
- One disk gives one vote in an epoch.
- A voter that lost its disk votes when its log holds more than was committed before it came back.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from ottla.protocol.messages.quorum import VoteRequest, VoteResponse
from ottla.raft.messages import METADATA_PARTITION, METADATA_TOPIC, ReplicaKey, Vote
from ottla.raft.quorum_state import FILE_NAME, parse
from ottla.raft.requests import read_request
from ottla.raft.responses import read_response
from ottla.server.quorum.member import QuorumMember
from ottla.server.quorum.peers import Peers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.world.node import Node

_FILE: Final = f"{METADATA_TOPIC}-{METADATA_PARTITION}/{FILE_NAME}"


class VoteReview:
    """Hears every vote of a story's nodes."""

    def __init__(self, nodes: list[Node], broken: Callable[[str], None]) -> None:
        self._nodes = nodes
        self._broken = broken
        self._votes: dict[tuple[int, int, int], ReplicaKey] = {}  # by node, disk of that node, epoch
        self._committed = 0
        self._committed_before: dict[tuple[int, int], int] = {}  # by node and disk: when the disk was new
        self.heard = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear the votes that are asked for and granted inside this context."""
        ask, answer = Peers.ask, QuorumMember.answer

        async def ask_aloud(peers: Peers, node_id: int, request: Any, **options: Any) -> Any:
            if isinstance(request, VoteRequest):
                self._stands(request)
            return await ask(peers, node_id, request, **options)

        async def answer_aloud(member: QuorumMember, message: Any) -> Any:
            response = await answer(member, message)
            if isinstance(message, VoteRequest):
                self._answers(member, message, response)
            return response

        with patch.object(Peers, "ask", ask_aloud), patch.object(QuorumMember, "answer", answer_aloud):
            yield

    def look(self) -> None:
        """Note how much metadata is committed, and what was before each new disk."""
        for node in self._nodes:
            self._committed_before.setdefault((node.number, node.disks), self._committed)
        brokers = [node.broker for node in self._nodes if node.is_ready and node.broker is not None]
        watermarks = [broker.quorum.member.replica.high_watermark for broker in brokers]
        self._committed = max([self._committed, *watermarks])

    def _stands(self, request: VoteRequest) -> None:
        """A candidate asks for votes: it has voted for itself."""
        vote = _vote_in(request)
        if not vote.is_pre_vote:
            self._said(self._nodes[vote.candidate.node_id - 1], vote)

    def _answers(self, member: QuorumMember, request: VoteRequest, response: VoteResponse) -> None:
        if response.error_code or not response.topics:
            return
        vote, answer = _vote_in(request), read_response(response)
        if not vote.is_pre_vote and getattr(answer, "is_granted", False):
            self._said(self._nodes[member.replica.node_id - 1], vote)

    def _said(self, node: Node, vote: Vote) -> None:
        self.heard += 1
        name = f"n{vote.candidate.node_id} in epoch {vote.epoch}"
        self._check_disk(node, vote, name)
        seen = self._votes.setdefault((node.number, node.disks, vote.epoch), vote.candidate)
        if seen != vote.candidate:
            self._broken(f"{node.host} votes for {name}, and voted for n{seen.node_id}")
        committed = self._committed_before.get((node.number, node.disks), 0)
        assert node.broker is not None
        end = node.broker.quorum.member.log_end_offset
        if node.disks > 1 and end <= committed:
            self._broken(
                f"{node.host} lost its disk and votes for {name} with a log that ends at {end}: "
                f"{committed} records were committed before"
            )

    def _check_disk(self, node: Node, vote: Vote, name: str) -> None:
        content = node.disk.durable(f"/data/{node.number}/{_FILE}")
        memory = None if content is None else parse(content)
        is_kept = memory is not None and (
            memory.epoch > vote.epoch or (memory.epoch, memory.voted) == (vote.epoch, vote.candidate)
        )
        if not is_kept:
            self._broken(f"{node.host} votes for {name}, and its disk surely keeps only {memory}")


def _vote_in(request: VoteRequest) -> Vote:
    vote = read_request(request, request.cluster_id or "")
    assert isinstance(vote, Vote)
    return vote
