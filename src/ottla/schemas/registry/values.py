"""What the registry keeps: versions of subjects, settings, modes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ottla.schemas.levels import Level
from ottla.schemas.schema import AVRO, SchemaText, guid_text


class Mode(StrEnum):
    """What may be written: anything, nothing, or schemas with ids from another registry."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"
    FORWARD = "FORWARD"

    @property
    def is_read_only(self) -> bool:
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)

    @property
    def takes_ids(self) -> bool:
        return self in (Mode.IMPORT, Mode.FORWARD)


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """One version of a subject. `others` are parts that the registry keeps and does not read (metadata, rules)."""

    subject: str
    version: int
    id: int
    schema: SchemaText
    digest: bytes
    is_deleted: bool = False
    others: Mapping[str, Any] = field(default_factory=dict)

    @property
    def guid(self) -> str:
        return guid_text(self.digest)

    def described(self) -> dict[str, Any]:
        """The version as JSON. The type is not said if it is Avro, as ever."""
        shown: dict[str, Any] = {
            "subject": self.subject,
            "version": self.version,
            "id": self.id,
            "guid": self.guid,
        }
        return shown | self.described_schema() | ({"deleted": True} if self.is_deleted else {})

    def schema_value(self) -> Any:
        """The schema alone: JSON as JSON, other texts as they are."""
        try:
            return json.loads(self.schema.text)
        except ValueError:
            return self.schema.text

    def described_schema(self) -> dict[str, Any]:
        """The schema alone as JSON."""
        shown: dict[str, Any] = {}
        if self.schema.type != AVRO:
            shown["schemaType"] = self.schema.type
        if self.schema.references:
            shown["references"] = [each._asdict() for each in self.schema.references]
        return shown | dict(self.others) | {"schema": self.schema.text}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a subject, of a context, or of all. `others` are kept and not obeyed."""

    level: Level | None = None
    normalize: bool | None = None
    others: Mapping[str, Any] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        """The settings as JSON."""
        shown: dict[str, Any] = dict(self.others)
        if self.normalize is not None:
            shown["normalize"] = self.normalize
        if self.level is not None:
            shown["compatibilityLevel"] = self.level.value
        return shown
