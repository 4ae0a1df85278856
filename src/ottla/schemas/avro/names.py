"""Avro's names: letters, digits and underscores, with a namespace before them."""

from __future__ import annotations

import re
from typing import Final

from ottla.schemas.avro.types import PRIMITIVES
from ottla.schemas.schema import InvalidSchemaError, shown

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def full_name(name: str, namespace: str) -> str:
    """A name with its namespace; a name with dots has its own."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def namespace_of(full: str) -> str:
    """The part before the last dot; empty without one."""
    return full.rpartition(".")[0]


def simple_name(full: str) -> str:
    """The part behind the last dot."""
    return full.rpartition(".")[2]


def relative_name(full: str, namespace: str) -> str:
    """A name as it is written inside of a namespace."""
    return simple_name(full) if namespace_of(full) == namespace else full


def checked_name(name: object, where: str) -> str:
    """A simple name. Raises InvalidSchemaError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidSchemaError(
            f"{where}: {shown(name)} cannot be a name: letters, digits and underscores, and no digit first"
        )
    return name


def checked_full_name(name: object, namespace: str, where: str) -> str:
    """A name, made full. Raises InvalidSchemaError."""
    if not isinstance(name, str) or not name:
        raise InvalidSchemaError(f"{where}: a name is missing")
    for part in name.split("."):
        checked_name(part, where)
    if name in PRIMITIVES:
        raise InvalidSchemaError(f"{where}: {name} is a type of Avro's own, and cannot be defined")
    return full_name(name, namespace)


def checked_namespace(namespace: object, where: str) -> str:
    """A namespace; empty is none. Raises InvalidSchemaError."""
    if not isinstance(namespace, str):
        raise InvalidSchemaError(f"{where}: a namespace must be a text, not {shown(namespace)}")
    for part in namespace.split(".") if namespace else ():
        checked_name(part, where)
    return namespace
