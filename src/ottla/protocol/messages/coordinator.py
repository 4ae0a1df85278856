"""FindCoordinator (key 10), versions 0 to 6.

KIP-98 coordinators of transactions (v1), KIP-482 flexible versions (v3), KIP-699 several keys at once (v4),
KIP-890 TRANSACTION_ABORTABLE (v5), KIP-932 coordinators of share groups (v6).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from ottla.protocol.codec import Int8, Int16, Int32, String, between, message, since, struct, until


@message(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorRequest:
    key: Annotated[String, until(3)] = ""
    key_type: Annotated[Int8, since(1)] = 0  # 0 group, 1 transaction, 2 share group
    coordinator_keys: Annotated[list[String], since(4)] = field(default_factory=list)


@struct
class Coordinator:
    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@message(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorResponse:
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Annotated[Int16, until(3)] = 0
    error_message: Annotated[String | None, between(1, 3)] = ""
    node_id: Annotated[Int32, until(3)] = 0
    host: Annotated[String, until(3)] = ""
    port: Annotated[Int32, until(3)] = 0
    coordinators: Annotated[list[Coordinator], since(4)] = field(default_factory=list)
