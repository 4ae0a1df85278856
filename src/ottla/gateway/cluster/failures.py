"""Errors of Kafka and of the network as problems for HTTP: Confluent's statuses and numbers, Kafka's words."""

from __future__ import annotations

from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.gateway.http.machine.credentials import unauthorized
from ottla.gateway.http.machine.http_error import HttpError

KAFKA_ERROR: Final = 50002
RETRIABLE_KAFKA_ERROR: Final = 50003

_E = ErrorCode
# Kafka's code: the status, and Confluent's number.
_ANSWERS: Final = {
    _E.UNKNOWN_TOPIC_OR_PARTITION: (404, 40401),
    _E.UNKNOWN_TOPIC_ID: (404, 40401),
    _E.INVALID_TOPIC_EXCEPTION: (404, 40401),
    _E.TOPIC_AUTHORIZATION_FAILED: (403, 40301),
    _E.GROUP_AUTHORIZATION_FAILED: (403, 40301),
    _E.CLUSTER_AUTHORIZATION_FAILED: (403, 40301),
    _E.GROUP_ID_NOT_FOUND: (404, 40403),
    _E.TRANSACTIONAL_ID_NOT_FOUND: (404, 404),
    _E.NON_EMPTY_GROUP: (409, 409),
    _E.MESSAGE_TOO_LARGE: (413, 413),
    _E.RECORD_LIST_TOO_LARGE: (413, 413),
    _E.TOPIC_ALREADY_EXISTS: (400, 40002),
    _E.INVALID_PARTITIONS: (400, 40002),
    _E.INVALID_REPLICATION_FACTOR: (400, 40002),
    _E.INVALID_REPLICA_ASSIGNMENT: (400, 40002),
    _E.INVALID_CONFIG: (400, 40002),
    _E.INVALID_REQUEST: (400, 40002),
    _E.POLICY_VIOLATION: (400, 40002),
    _E.INVALID_GROUP_ID: (422, 42204),
    _E.OFFSET_OUT_OF_RANGE: (416, 41601),
    _E.ILLEGAL_GENERATION: (409, 40904),
    _E.UNKNOWN_MEMBER_ID: (409, 40904),
    _E.REBALANCE_IN_PROGRESS: (409, 40904),
    _E.FENCED_INSTANCE_ID: (409, 40904),
}
_LOGIN_CODES: Final = {_E.SASL_AUTHENTICATION_FAILED, _E.UNSUPPORTED_SASL_MECHANISM, _E.ILLEGAL_SASL_STATE}


def problem_of(error: Exception) -> HttpError | None:
    """What to tell a caller; None for an error that is neither Kafka's nor the network's."""
    if isinstance(error, KafkaError):
        return _kafka_problem(error)
    if isinstance(error, ConnectionError | TimeoutError):
        words = str(error) or "it did not answer in time"
        return HttpError(503, f"the cluster cannot be reached: {words}", error_code=RETRIABLE_KAFKA_ERROR)
    return None


def _kafka_problem(error: KafkaError) -> HttpError:
    if error.code in _LOGIN_CODES:
        return unauthorized(error.message)
    status, number = _ANSWERS.get(error.code, (0, 0))
    if not status:
        status, number = (503, RETRIABLE_KAFKA_ERROR) if error.code.retriable else (500, KAFKA_ERROR)
    return HttpError(status, error.message, error_code=number, kafka_code=error.code)
