"""The status of an error: gRPC's code by the status of HTTP, and Kafka's name of the error in google.rpc.ErrorInfo."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.errors import ErrorCode
from ottla.gateway.http.machine.http_error import HttpError

DOMAIN: Final = "ottla"
_E = ErrorCode
_BY_STATUS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "FAILED_PRECONDITION",
    413: "RESOURCE_EXHAUSTED",
    416: "OUT_OF_RANGE",
    422: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
_BY_KAFKA_CODE: Final = {
    _E.TOPIC_ALREADY_EXISTS: "ALREADY_EXISTS",
    _E.REBALANCE_IN_PROGRESS: "ABORTED",
    _E.ILLEGAL_GENERATION: "ABORTED",
    _E.NON_EMPTY_GROUP: "FAILED_PRECONDITION",
}
# Of problems that the gateway found itself: Kafka's name for the same.
_REASONS: Final = {
    40101: _E.SASL_AUTHENTICATION_FAILED,
    40301: _E.TOPIC_AUTHORIZATION_FAILED,
    40401: _E.UNKNOWN_TOPIC_OR_PARTITION,
    40402: _E.UNKNOWN_TOPIC_OR_PARTITION,
    40403: _E.GROUP_ID_NOT_FOUND,
    41601: _E.OFFSET_OUT_OF_RANGE,
}


class Status(NamedTuple):
    """The name of gRPC's code, a sentence, and the reason: Kafka's name of the error."""

    code: str
    message: str
    reason: str
    error_code: int


def status_of(problem: HttpError) -> Status:
    """What a caller over gRPC hears of a problem."""
    kafka_code = problem.kafka_code
    code = _BY_KAFKA_CODE.get(kafka_code) if kafka_code is not None else None
    reason = kafka_code or _REASONS.get(problem.error_code)
    if reason is None:
        reason = _E.INVALID_REQUEST if problem.status in (400, 422) else _E.UNKNOWN_SERVER_ERROR
    return Status(
        code or _BY_STATUS.get(problem.status, "INTERNAL"), problem.message, reason.name, problem.error_code
    )
