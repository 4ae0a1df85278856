"""What a registry refuses, with Confluent's numbers: the first three digits are the HTTP status."""

from __future__ import annotations


class RegistryError(Exception):
    """A refusal. `code` is Confluent's error code, `details` what is wrong with two schemas."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code // 100 if self.code >= 1_000 else self.code


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject[:200]}' not found.")


def version_not_found(version: object) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(which: object = "") -> RegistryError:
    return RegistryError(40403, f"Schema {which} not found" if which != "" else "Schema not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete it permanently."
    )


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        40405, f"Subject '{subject}' was not deleted before. Delete it without permanent=true first."
    )


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    message = f"Version {version} of subject '{subject}' was soft deleted. Set permanent=true to delete it permanently."
    return RegistryError(40406, message)


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    message = f"Version {version} of subject '{subject}' was not deleted before. Delete it without permanent=true first."
    return RegistryError(40407, message)


def level_not_set(subject: str) -> RegistryError:
    return RegistryError(40408, f"Subject '{subject}' has no compatibility level of its own.")


def mode_not_set(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' has no mode of its own.")


def incompatible(subject: str, details: str) -> RegistryError:
    message = f"The schema is incompatible with an earlier one of subject '{subject}': {details}"
    return RegistryError(409, message)


def invalid_schema(message: str) -> RegistryError:
    return RegistryError(42201, f"Invalid schema: {message}")


def invalid_version(version: str) -> RegistryError:
    message = (
        f"The version {version[:40]!r} is no version: it must be a number from 1 to 2147483647, or latest."
    )
    return RegistryError(42202, message)


def invalid_level(level: object) -> RegistryError:
    allowed = "NONE, BACKWARD, FORWARD, FULL, BACKWARD_TRANSITIVE, FORWARD_TRANSITIVE, FULL_TRANSITIVE"
    return RegistryError(
        42203, f"Invalid compatibility level {str(level)[:40]!r}: it must be one of {allowed}."
    )


def invalid_mode(mode: object) -> RegistryError:
    allowed = "READWRITE, READONLY, READONLY_OVERRIDE, IMPORT, FORWARD"
    return RegistryError(42204, f"Invalid mode {str(mode)[:40]!r}: it must be one of {allowed}.")


def not_permitted(message: str) -> RegistryError:
    return RegistryError(42205, message)


def reference_exists(subject: str, version: int) -> RegistryError:
    message = f"Version {version} of subject '{subject}' is referred to by other schemas: delete those first."
    return RegistryError(42206, message)


def id_taken(schema_id: int) -> RegistryError:
    return RegistryError(42207, f"The id {schema_id} belongs to another schema already.")


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(
        42208, f"The subject {subject[:200]!r} is no name that a schema can be registered under."
    )
