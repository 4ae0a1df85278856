"""Kafka's own message definitions, read from `../shared/kafka-messages` beside the checkout.

They are JSON with comment lines. `definition(name)` gives one file; `fields_in(definition, version)` resolves
it for one version into the same shape that our declarations are resolved to by the test, so that the two can
be compared with ==.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "kafka-messages"

_NUMBERS = {"int8", "int16", "int32", "int64", "uint16", "uint32", "float64"}


@dataclass(frozen=True)
class FieldShape:
    """One field in one version: everything that decides its bytes, and its default."""

    name: str
    type: str
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: object
    fields: tuple[FieldShape, ...]  # of a struct


def definitions() -> dict[str, dict[str, Any]]:
    """Every definition in the folder, by name."""
    found = (_parse(path) for path in sorted(FOLDER.glob("*/*.json")))
    return {definition["name"]: definition for definition in found}


def _parse(path: Path) -> dict[str, Any]:
    text = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
    definition: dict[str, Any] = json.loads(text)
    return definition


def contains(versions: str, version: int) -> bool:
    """Whether a range such as "3+", "0-5", "7" or "none" contains a version."""
    if versions == "none":
        return False
    first, separator, last = versions.partition("-")
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    return int(first) <= version <= int(last if separator else first)


def fields_in(definition: dict[str, Any], version: int) -> tuple[FieldShape, ...]:
    """The fields that a definition has in one version."""
    commons = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
    return _shapes(definition["fields"], version, commons)


def _shapes(fields: list[dict[str, Any]], version: int, commons: dict[str, Any]) -> tuple[FieldShape, ...]:
    present = [f for f in fields if contains(f.get("versions", f.get("taggedVersions", "none")), version)]
    return tuple(_shape(f, version, commons) for f in present)


def _shape(field: dict[str, Any], version: int, commons: dict[str, Any]) -> FieldShape:
    kind = field["type"].removeprefix("[]")
    is_array = kind != field["type"]
    is_struct = kind[0].isupper()
    subfields = _shapes(field.get("fields") or commons[kind], version, commons) if is_struct else ()
    return FieldShape(
        name=snake_case(field["name"]),
        type=kind,
        is_array=is_array,
        is_nullable=contains(field.get("nullableVersions", "none"), version),
        tag=field["tag"] if contains(field.get("taggedVersions", "none"), version) else None,
        default=_default(field, kind, is_array),
        fields=subfields,
    )


def _default(field: dict[str, Any], kind: str, is_array: bool) -> object:
    """The default, spelled out or Kafka's own for the type; of a struct, only whether it is null."""
    text = str(field.get("default", "")).lower() if field.get("default", "") is not None else "null"
    if text == "null" or (kind == "records" and not text):
        return None
    if is_array:
        return []
    if kind in _NUMBERS:
        return int(text or "0", 0)
    if kind == "bool":
        return text == "true"
    return field.get(
        "default", ""
    )  # a string; of bytes, a uuid and a struct only the empty default is in use


def snake_case(name: str) -> str:
    """`ThrottleTimeMs` → `throttle_time_ms`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
