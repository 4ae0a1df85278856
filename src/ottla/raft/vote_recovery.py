"""How a voter that lost its memory earns its vote back.

A voter without a `quorum-state` (a new disk, or one that was found damaged) may have promised its vote in any
epoch, and may have helped to commit any record, and knows nothing of it. If it voted, there might be two
leaders in one epoch, or one without a committed record. So it neither votes nor stands for election, and
leaders count neither its log nor its fetches (`Fetch.is_proven`), until it has been proven:

    in one epoch, from one leader,
    1. it has fetched all there was: a fetch at offset X was answered without records, so the leader's log
       ended at X after this node came back;
    2. then the high watermark rose above X, and this node has flushed the record at X.

Why that is enough. The record at X was appended after this node came back, and committed in the leader's
epoch e by a majority that does not contain this node. Every majority that elects a node with an old vote of
this node shares a voter with it.
- A candidate of a later epoch that has an old vote of this node asked for it before the record existed, and
  does not fetch from an older leader any more, so its log lacks the record: the shared voter, which has it,
  refuses. No epoch gets two leaders.
- A record that this node helped to commit before is in the leader's log below X: either the leader wrote it
  before X, or it was elected with it. It was not written in a later epoch: then the shared voter would have
  gone back to an older one.
From then on this node remembers (it writes its memory for the first time), and counts.

The leader appends a record for it when there is no other to commit. As long as a majority of voters
remembers, this needs no operator; when a majority has lost its disks, there is no safe way, and none is
taken.

Where the log names the voters with their directories (KIP-853), a lost disk is no voter any more: votes of its
node count only from the directory that is named. So nothing has to be proven, and the node remembers from the
moment it knows that (`Node.may_forget_its_votes`); it votes when its new directory is added.

A cluster is founded by voters that begin with an empty memory, QuorumState(), written once when their disks
are prepared: whoever prepares a disk for a voter of a cluster that exists must not write it.
"""

from __future__ import annotations

from ottla.model import NO_OFFSET
from ottla.raft.node import Node


class Proof:
    """The steps towards it under one leader."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._end_offset: int | None = None
        self._committed_offset = NO_OFFSET

    def begin(self) -> None:
        """Another leader, or another epoch: begin again."""
        self._end_offset = None
        self._committed_offset = NO_OFFSET

    def fetched(self, fetch_offset: int, high_watermark: int, *, is_empty: bool) -> None:
        """The leader answered a fetch."""
        if self._end_offset is None and is_empty:
            self._end_offset = fetch_offset
        self._committed_offset = max(self._committed_offset, high_watermark)
        self.check()

    def check(self) -> None:
        """Prove the node once the high watermark and its flushed log are past the end of step 1."""
        node, end_offset = self._node, self._end_offset
        if node.may_forget_its_votes:
            node.prove()
        if node.is_proven or not node.is_voter or end_offset is None:
            return
        if self._committed_offset > end_offset and node.log.flushed_offset > end_offset:
            node.prove()
