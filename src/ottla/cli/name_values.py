"""Options of the form NAME=VALUE."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.config import ConfigError


def parse_assignments(pairs: Iterable[str], option: str) -> dict[str, str]:
    """The values given with `option` as a mapping; the last value of a name counts."""
    parsed: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{option} cannot be '{pair}': write {option} NAME=VALUE.")
        parsed[name.strip()] = value.strip()
    return parsed
