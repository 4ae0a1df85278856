"""Bodies and addresses of requests as values, with a sentence for what cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.gateway.registry.machine.problems import RegistryError, invalid_version
from ottla.gateway.registry.machine.registration import Submission
from ottla.schemas.schema import AVRO, Reference, shown

_MOST_NUMBER: Final = 2**31 - 1
_METADATA: Final = ("tags", "properties", "sensitive")


def submission_of(body: Mapping[str, Any]) -> Submission:
    """The schema that a caller sends. Raises RegistryError(422 or 42210)."""
    text = body.get("schema")
    if not isinstance(text, str):
        raise RegistryError(42201, f'"schema" must be a text with the schema in it, not {shown(text)}')
    schema_type = body.get("schemaType") or AVRO
    if not isinstance(schema_type, str):
        raise RegistryError(422, f'"schemaType" must be a text, not {shown(schema_type)}')
    if body.get("ruleSet"):
        raise RegistryError(42210, "Rules are not served: register the schema without its ruleSet.")
    references = body.get("references") or []
    if not isinstance(references, list):
        raise RegistryError(422, '"references" must be a list')
    return Submission(
        text,
        schema_type.upper(),
        tuple(map(_reference, references)),
        _metadata(body.get("metadata") or {}),
        _number(body, "id"),
        _number(body, "version"),
    )


def version_in(text: str) -> int | None:
    """The version that an address names; None for the latest. Raises RegistryError(42202)."""
    if text in ("latest", "-1"):
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 11 and 0 < int(text) <= _MOST_NUMBER):
        raise invalid_version(text)
    return int(text)


def id_in(text: str) -> int:
    """The id that an address names. Raises RegistryError(404)."""
    if not (text.isascii() and text.isdigit() and len(text) < 11):
        raise RegistryError(404, f"{text[:40]!r} is no id of a schema: it must be a number")
    return int(text)


def _reference(value: Any) -> Reference:
    if not isinstance(value, dict):
        raise RegistryError(
            422, f"a reference must be an object with name, subject and version, not {shown(value)}"
        )
    name, subject, version = value.get("name"), value.get("subject"), value.get("version")
    is_number = isinstance(version, int) and not isinstance(version, bool)
    if not isinstance(name, str) or not isinstance(subject, str) or not is_number:
        raise RegistryError(
            422, f"a reference must have a name, a subject and the number of a version: {shown(value)}"
        )
    assert isinstance(version, int)
    if version != -1 and not 0 < version <= _MOST_NUMBER:
        raise invalid_version(str(version))
    return Reference(name, subject, version)


def _metadata(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not set(value) <= set(_METADATA):
        raise RegistryError(
            422, f'"metadata" must be an object with {", ".join(_METADATA)}, not {shown(value)}'
        )
    tags, properties = value.get("tags") or {}, value.get("properties") or {}
    sensitive = value.get("sensitive") or []
    is_fine = (
        isinstance(tags, dict)
        and all(
            isinstance(each, list) and all(isinstance(tag, str) for tag in each) for each in tags.values()
        )
        and isinstance(properties, dict)
        and all(isinstance(each, str) for each in properties.values())
        and isinstance(sensitive, list)
        and all(isinstance(each, str) for each in sensitive)
    )
    if not is_fine:
        raise RegistryError(422, '"metadata" must have texts as properties, and lists of texts as tags')
    return {name: each for name in _METADATA if (each := value.get(name))}


def _number(body: Mapping[str, Any], name: str) -> int | None:
    """Clients write -1 or 0 for no number."""
    value = body.get(name)
    if value is None or value in (-1, 0):
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _MOST_NUMBER:
        raise RegistryError(422, f'"{name}" must be a number from 1 to {_MOST_NUMBER}, not {shown(value)}')
    return value
