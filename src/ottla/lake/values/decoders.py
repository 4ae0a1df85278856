"""The decoder of a table's values, by its definition."""

from __future__ import annotations

from ottla.lake.plan.definition import TableDefinition
from ottla.lake.values.decoded import ValueDecoder
from ottla.lake.values.json_values import JsonDecoder


def value_decoder(definition: TableDefinition) -> ValueDecoder | None:
    """How values become columns; None if they stay bytes."""
    match definition.value:
        case "json":
            return JsonDecoder(is_open=not definition.columns)
        case "registry":
            from ottla.lake.values.registry_values import RegistryDecoder

            return RegistryDecoder(definition.registry)
    return None
