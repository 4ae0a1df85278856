"""The outcomes of records as REST v2 answers them.

A request whose records all failed for want of rights, or of a login, is answered as such; any other has status 200
and an outcome for each record: Confluent's error code 1 for an error that stays, 2 for one that passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.client.producer.machine.delivery_report import DeliveryError, DeliveryReport
from ottla.errors import ErrorCode

_STAYS: Final = 1
_PASSES: Final = 2
_REFUSALS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
}


def refusal_of_all(outcomes: Sequence[DeliveryReport | DeliveryError]) -> DeliveryError | None:
    """The error to answer the whole request with, if the caller may write none of its records."""
    first = outcomes[0]
    if not isinstance(first, DeliveryError) or first.code not in _REFUSALS:
        return None
    return (
        first
        if all(isinstance(each, DeliveryError) and each.code is first.code for each in outcomes)
        else None
    )


def produce_answer(
    outcomes: Sequence[DeliveryReport | DeliveryError], key_schema_id: int | None, value_schema_id: int | None
) -> dict[str, Any]:
    """The body of REST v2's answer."""
    return {
        "offsets": list(map(_shown, outcomes)),
        "key_schema_id": key_schema_id,
        "value_schema_id": value_schema_id,
    }


def _shown(outcome: DeliveryReport | DeliveryError) -> dict[str, Any]:
    if isinstance(outcome, DeliveryReport):
        return {"partition": outcome.partition, "offset": outcome.offset, "error_code": None, "error": None}
    code = _PASSES if outcome.code.retriable else _STAYS
    return {"partition": None, "offset": None, "error_code": code, "error": outcome.message}
