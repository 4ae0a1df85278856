"""An answer that says what is wrong: a status, Confluent's error code, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.errors import ErrorCode


class HttpError(Exception):
    """Raised by a handler instead of an answer. `error_code` is Confluent's: the status, or five digits."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        error_code: int | None = None,
        headers: Mapping[str, str] | None = None,
        kafka_code: ErrorCode | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.error_code = status if error_code is None else error_code
        self.headers = dict(headers or {})
        self.kafka_code = kafka_code

    def body(self) -> dict[str, object]:
        """The JSON of the answer. Kafka's own error, where there is one, is named beside Confluent's number."""
        shown: dict[str, object] = {"error_code": self.error_code, "message": self.message}
        if self.kafka_code is not None:
            shown["kafka_error"] = self.kafka_code.name
        return shown


def unprocessable(message: str, error_code: int | None = None) -> HttpError:
    """The request was understood, and a value in it cannot be used."""
    return HttpError(422, message, error_code=error_code)
