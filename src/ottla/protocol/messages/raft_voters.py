"""Changes of the voters of the metadata quorum (KIP-853).

AddRaftVoter (key 80), versions 0 to 1: v1 may be answered before the change is committed (KIP-1186).
RemoveRaftVoter (81), version 0.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from ottla.protocol.codec import (
    ZERO_UUID,
    Boolean,
    Int16,
    Int32,
    String,
    UInt16,
    Uuid,
    message,
    since,
    struct,
)


@struct
class VoterListener:
    name: String = ""
    host: String = ""
    port: UInt16 = 0


@message(key=80, versions=(0, 1), flexible=0)
class AddRaftVoterRequest:
    cluster_id: String | None = ""
    timeout_ms: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: list[VoterListener] = field(default_factory=list)
    ack_when_committed: Annotated[Boolean, since(1)] = True


@message(key=80, versions=(0, 1), flexible=0)
class AddRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@message(key=81, versions=(0, 0), flexible=0)
class RemoveRaftVoterRequest:
    cluster_id: String | None = ""
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID


@message(key=81, versions=(0, 0), flexible=0)
class RemoveRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
