"""The records of `_schemas`, in Confluent's format, so that a registry moves by copying its topic.

A key is a JSON object with a `keytype`; its keys stand in Confluent's order, because compaction compares bytes. A
value is a JSON object, or null, which takes the key's former value away.

    SCHEMA           one version of a subject; soft deleted with "deleted": true, hard deleted by null
    DELETE_SUBJECT   all versions up to a number are soft deleted
    CLEAR_SUBJECT    what is left of a subject before an import is forgotten
    CONFIG, MODE     the settings and the mode of a subject, a context, or the default context
    CONTEXT, NOOP    read and not needed: contexts are known by their subjects
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.schemas.json_text import to_json
from ottla.schemas.levels import Level
from ottla.schemas.registry.values import Mode, Settings, StoredVersion
from ottla.schemas.schema import AVRO, Reference, SchemaText

_KEPT = ("metadata", "ruleSet")


class RegistryRecord(NamedTuple):
    """A record as the topic has it."""

    key: bytes
    value: bytes | None


class SchemaKey(NamedTuple):
    """The key of a version."""

    subject: str
    version: int


class SubjectDeletion(NamedTuple):
    """All versions up to this one are soft deleted."""

    subject: str
    version: int


class SubjectClearing(NamedTuple):
    """The subject, or all of a context, is forgotten."""

    subject: str


class SettingsChange(NamedTuple):
    """New settings, or None for none; of a subject, a context, or the default context."""

    subject: str | None
    settings: Settings | None


class ModeChange(NamedTuple):
    """A new mode, or None for none."""

    subject: str | None
    mode: Mode | None


Change = (
    StoredVersion | SchemaKey | SubjectDeletion | SubjectClearing | SettingsChange | ModeChange
)  # a bare SchemaKey is a hard delete


def version_record(stored: StoredVersion) -> RegistryRecord:
    """A version, new or soft deleted."""
    schema = stored.schema
    value: dict[str, Any] = {"subject": stored.subject, "version": stored.version, "id": stored.id}
    value["md5"] = b64encode(stored.digest).decode()
    if schema.type != AVRO:
        value["schemaType"] = schema.type
    if schema.references:
        value["references"] = [each._asdict() for each in schema.references]
    value |= dict(stored.others)
    value |= {"schema": schema.text, "deleted": stored.is_deleted}
    return _record(_schema_key(stored.subject, stored.version), value)


def tombstone(subject: str, version: int) -> RegistryRecord:
    """A version is hard deleted."""
    return _record(_schema_key(subject, version), None)


def subject_deletion(subject: str, version: int) -> RegistryRecord:
    """All versions up to this one are soft deleted."""
    key = {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
    return _record(key, {"subject": subject, "version": version})


def subject_clearing(subject: str | None) -> RegistryRecord:
    """A subject or a context is forgotten before an import."""
    return _record(_key("CLEAR_SUBJECT", subject), {"subject": subject or ""})


def settings_record(subject: str | None, settings: Settings | None) -> RegistryRecord:
    """The settings of a subject, a context or (None) the default context; None removes them."""
    if settings is None:
        return _record(_key("CONFIG", subject), None)
    return _record(_key("CONFIG", subject), _with_subject(subject, settings.described()))


def mode_record(subject: str | None, mode: Mode | None) -> RegistryRecord:
    """The mode of a subject, a context or (None) the default context; None removes it."""
    return _record(
        _key("MODE", subject), None if mode is None else _with_subject(subject, {"mode": mode.value})
    )


def change_of(record: RegistryRecord) -> Change | None:
    """What a record changes; None for one that changes nothing. Raises ValueError if it cannot be read."""
    key = _object(record.key)
    value = None if record.value is None else _object(record.value)
    match key.get("keytype"):
        case "SCHEMA":
            at = SchemaKey(_text(key, "subject"), _number(key, "version"))
            return at if value is None else _stored(at, value)
        case "DELETE_SUBJECT" if value is not None:
            return SubjectDeletion(_text(value, "subject"), _number(value, "version"))
        case "CLEAR_SUBJECT" if value is not None:
            return SubjectClearing(value.get("subject") or "")
        case "CONFIG":
            return SettingsChange(key.get("subject") or None, None if value is None else settings_of(value))
        case "MODE":
            return ModeChange(
                key.get("subject") or None, None if value is None else Mode(_text(value, "mode"))
            )
    return None


def settings_of(value: Mapping[str, Any]) -> Settings:
    """Settings as a record has them. Raises ValueError."""
    level, normalize = value.get("compatibilityLevel"), value.get("normalize")
    others = {
        name: each
        for name, each in value.items()
        if name not in ("subject", "compatibilityLevel", "normalize") and each is not None
    }
    return Settings(
        None if level is None else Level(level), None if normalize is None else bool(normalize), others
    )


def _stored(at: SchemaKey, value: dict[str, Any]) -> StoredVersion:
    references = tuple(
        Reference(_text(each, "name"), _text(each, "subject"), _number(each, "version"))
        for each in value.get("references") or ()
    )
    schema = SchemaText(value.get("schemaType") or AVRO, _text(value, "schema"), references)
    others = {name: value[name] for name in _KEPT if value.get(name) is not None}
    digest = _digest(value.get("md5")) or schema.digest
    is_deleted = value.get("deleted") is True
    return StoredVersion(at.subject, at.version, _number(value, "id"), schema, digest, is_deleted, others)


def _digest(text: object) -> bytes | None:
    try:
        made = b64decode(text, validate=True) if isinstance(text, str) else b""
    except binascii.Error:
        return None
    return made if len(made) == 16 else None


def _schema_key(subject: str, version: int) -> dict[str, Any]:
    return {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}


def _key(keytype: str, subject: str | None) -> dict[str, Any]:
    return {"keytype": keytype, **({"subject": subject} if subject else {}), "magic": 0}


def _with_subject(subject: str | None, value: dict[str, Any]) -> dict[str, Any]:
    return {"subject": subject, **value} if subject else value


def _record(key: dict[str, Any], value: dict[str, Any] | None) -> RegistryRecord:
    encoded = None if value is None else to_json(value).encode("utf-8", "surrogatepass")
    return RegistryRecord(to_json(key).encode("utf-8", "surrogatepass"), encoded)


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _text(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, str):
        raise ValueError(f'"{name}" is no text')
    return found


def _number(value: Any, name: str) -> int:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValueError(f'"{name}" is no number')
    return found
