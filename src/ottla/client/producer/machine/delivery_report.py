"""The outcome of a record: its place in the log, or the reason why it is not there.

Every error carries its records, so that a caller can keep them, log them or send them again. `is_uncertain`
says that the record may be in the log, because an answer was lost or did not come in time. Sending such a
record again may write it twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Header


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record as it was given to a producer. Key and value are bytes, unless serializing them failed."""

    topic: str
    value: object = None
    key: object = None
    partition: int | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None


class DeliveryReport(NamedTuple):
    """The place of a record. Without acknowledgements (acks=0) its offset is not known: it is -1."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class DeliveryError(KafkaError):
    """Records were not delivered: `records` are all of them, `record` is the first."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        records: tuple[ProducerRecord, ...],
        *,
        is_uncertain: bool = False,
    ) -> None:
        super().__init__(code, message)
        self.records = records
        self.is_uncertain = is_uncertain

    @property
    def record(self) -> ProducerRecord:
        return self.records[0]


class BufferFullError(DeliveryError):
    """There is no room for the record: it was not taken.

    Wait (`await producer.drain()`) and send it again.
    """


class SerializationError(DeliveryError):
    """The key or value could not be serialized: the record was not taken. The cause says why."""


class Failure(NamedTuple):
    """Why all records of a batch failed; each of them gets an error of its own."""

    code: ErrorCode
    message: str
    is_uncertain: bool = False


def final_failure(error: BaseException | None) -> Failure:
    """The failure of all records of a producer that cannot send any more because of `error`."""
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    reason = error.message if isinstance(error, KafkaError) else repr(error)
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        reason += " Idempotence needs this permission: get it, or set enable_idempotence=False."
    return Failure(code, f"the producer cannot go on: {reason}")
