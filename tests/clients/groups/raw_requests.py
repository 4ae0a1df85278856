"""Requests about groups made by hand, in old versions, to say what a client library would never say.

Like `tests/clients/raw.py`, this is written without the code under test.
"""

from __future__ import annotations

import struct

from tests.clients.raw import ask, one_partition, request, string

OFFSET_COMMIT, JOIN_GROUP = 8, 11


def commit(bootstrap: str, group: str, generation: int, member_id: str, topic: str, offset: int) -> int:
    """The error code of an OffsetCommit v2 of a topic's first partition."""
    head = string(group) + struct.pack(">i", generation) + string(member_id) + struct.pack(">q", -1)
    body = head + one_partition(topic, struct.pack(">iq", 0, offset) + string(""))
    answer = ask(bootstrap, OFFSET_COMMIT, 2, body)
    (error_code,) = struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)
    return int(error_code)


def join_frame(group: str, topic: str, session_timeout_ms: int) -> bytes:
    """A JoinGroup v0, ready to be sent: a new member that would share a topic by range."""
    subscription = struct.pack(">hi", 0, 1) + string(topic) + struct.pack(">i", -1)
    protocols = struct.pack(">i", 1) + string("range") + struct.pack(">i", len(subscription)) + subscription
    body = string(group) + struct.pack(">i", session_timeout_ms) + string("") + string("consumer") + protocols
    return request(JOIN_GROUP, 0, 1, body)
