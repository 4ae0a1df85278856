"""How serializers fail."""

from __future__ import annotations

from ottla.schemas.schema import SchemaDataError as SchemaDataError


class RegistryRequestError(Exception):
    """The registry refused a request. `code` is Confluent's, such as 40403; `status` is HTTP's."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(f"{message} (error code {code})")
        self.status = status
        self.code = code
        self.message = message
