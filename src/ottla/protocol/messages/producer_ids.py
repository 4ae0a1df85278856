"""Producer ids: InitProducerId (key 22, versions 0 to 6) and AllocateProducerIds (67, version 0).

InitProducerId: KIP-98, KIP-482 flexible (v2), KIP-360 resuming after an error (v3), KIP-588 PRODUCER_FENCED
(v4), KIP-890 TRANSACTION_ABORTABLE (v5), KIP-939 two-phase commit (v6, which Kafka 4.3 has as an unstable
version). AllocateProducerIds: KIP-730, a command to the controller from its brokers, who hand out the ids of a
block.
"""

from __future__ import annotations

from typing import Annotated

from ottla.protocol.codec import Boolean, Int16, Int32, Int64, String, message, since


@message(key=22, versions=(0, 6), flexible=2)
class InitProducerIdRequest:
    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1
    enable2_pc: Annotated[Boolean, since(6)] = False
    keep_prepared_txn: Annotated[Boolean, since(6)] = False


@message(key=22, versions=(0, 6), flexible=2)
class InitProducerIdResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, since(6)] = -1


@message(key=67, versions=(0, 0), flexible=0)
class AllocateProducerIdsRequest:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


@message(key=67, versions=(0, 0), flexible=0)
class AllocateProducerIdsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
