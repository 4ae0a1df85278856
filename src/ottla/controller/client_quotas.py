"""Client quotas: AlterClientQuotas and DescribeClientQuotas, versions 0 to 1 (KIP-546).

The changes of one entity are made together or not at all, and entities are independent of each other. An address is
kept in the form in which brokers compare it; a name of a host is refused, since nobody could say which address it
means tomorrow.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ottla.controller.decision import Decision
from ottla.controller.image import ClusterImage
from ottla.controller.quota_records import quota_record
from ottla.controller.records import ClientQuotaRecord
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedEntryData,
    EntityData,
    EntryData,
    OpData,
    ValueData,
)
from ottla.security.quota.entities import (
    CLIENT_ID,
    CLIENT_KEYS,
    FRACTIONAL_KEYS,
    IP,
    IP_KEYS,
    UNITS,
    USER,
    Entity,
    entity_of,
    plain_ip,
)

_EXACT, _DEFAULT, _ANY = 0, 1, 2
_TYPES: Final = (USER, CLIENT_ID, IP)
_MOST: Final = 2.0**63


def alter_client_quotas(image: ClusterImage, request: AlterClientQuotasRequest) -> Decision:
    """Set quotas and remove them."""
    records: list[Any] = []
    results = []
    seen: set[Entity] = set()
    for entry in request.entries:
        try:
            entity = _entity(entry.entity)
            if entity in seen:
                raise _refused("The request changes the quotas of one entity more than once.")
            seen.add(entity)
            changes = [*_changes(image.client_quotas.get(entity, {}), entity, entry)]
        except KafkaError as error:
            results.append(AlteredEntryData(error.code, error.message, entry.entity))
            continue
        records += changes
        results.append(AlteredEntryData(error_message=None, entity=entry.entity))
    return Decision([] if request.validate_only else records, AlterClientQuotasResponse(entries=results))


def _entity(parts: Iterable[EntityData]) -> Entity:
    found: dict[str, str | None] = {}
    for part in parts:
        if part.entity_type not in _TYPES:
            raise _refused(f"'{part.entity_type}' has no quotas, only {', '.join(_TYPES)}.")
        if part.entity_type in found:
            raise _refused(f"The entity has two parts of the type {part.entity_type}.")
        if part.entity_name == "":
            raise _refused(f"The name of the {part.entity_type} must not be empty; null is the default.")
        found[part.entity_type] = _name(part)
    if not found:
        raise _refused("An entity needs a user, a client-id or an ip.")
    if IP in found and len(found) > 1:
        raise _refused("An ip has quotas by itself, not together with a user or a client-id.")
    return entity_of(found)


def _name(part: EntityData) -> str | None:
    if part.entity_type != IP or part.entity_name is None:
        return part.entity_name
    address = plain_ip(part.entity_name)
    if address is None:
        raise _refused(f"'{part.entity_name}' is no address: give one such as 10.0.0.7 or 2001:db8::7.")
    return address


def _changes(present: Mapping[str, float], entity: Entity, entry: EntryData) -> Iterator[ClientQuotaRecord]:
    keys = [change.key for change in entry.ops]
    if len(set(keys)) < len(keys):
        raise _refused("The request changes one quota of the entity more than once.")
    for change in entry.ops:
        if change.remove:
            if change.key in present:
                yield quota_record(entity, change.key, 0.0, remove=True)
            continue
        _check(entity, change)
        if present.get(change.key) != change.value:
            yield quota_record(entity, change.key, change.value)


def _check(entity: Entity, change: OpData) -> None:
    known = IP_KEYS if entity[0][0] == IP else CLIENT_KEYS
    if change.key not in known:
        kind = " and ".join(part for part, _ in entity)
        raise _refused(f"'{change.key}' is no quota of a {kind}, only {', '.join(known)}.")
    may_be_part = change.key in FRACTIONAL_KEYS
    if not 0 < change.value < _MOST or not (may_be_part or float(change.value).is_integer()):
        number = "a number" if may_be_part else "a whole number"
        raise _refused(
            f"The quota {change.key} must be {number} of {UNITS[change.key]} above 0, not {change.value}."
        )


def _refused(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)


def describe_client_quotas(
    image: ClusterImage, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """The quotas of the entities that a filter finds; a strict one finds those without further parts only."""
    try:
        wanted = _components(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    found = [
        (entity, values)
        for entity, values in image.client_quotas.items()
        if _matches(dict(entity), wanted, is_strict=request.strict)
    ]
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            DescribedEntryData(
                [EntityData(*part) for part in entity],
                [ValueData(key, value) for key, value in values.items()],
            )
            for entity, values in sorted(found, key=lambda item: repr(item[0]))
        ],
    )


def _components(components: Iterable[ComponentData]) -> dict[str, ComponentData]:
    found: dict[str, ComponentData] = {}
    for each in components:
        if each.entity_type not in _TYPES:
            code = ErrorCode.UNSUPPORTED_VERSION
            raise KafkaError(code, f"'{each.entity_type}' has no quotas, only {', '.join(_TYPES)}.")
        if each.entity_type in found:
            raise _refused(f"The filter names the type {each.entity_type} twice.")
        if each.match_type not in (_EXACT, _DEFAULT, _ANY) or (each.match_type == _EXACT) != bool(each.match):
            raise _refused("A part of a filter needs a name, or is for the default, or for any name.")
        found[each.entity_type] = each
    if IP in found and len(found) > 1:
        raise _refused("An ip has quotas by itself, not together with a user or a client-id.")
    return found


def _matches(entity: dict[str, str | None], wanted: dict[str, ComponentData], *, is_strict: bool) -> bool:
    if is_strict and entity.keys() != wanted.keys():
        return False
    return all(_has(entity, each) for each in wanted.values())


def _has(entity: dict[str, str | None], wanted: ComponentData) -> bool:
    if wanted.entity_type not in entity:
        return False
    name = entity[wanted.entity_type]
    if wanted.match_type == _ANY:
        return True
    return name is None if wanted.match_type == _DEFAULT else name == wanted.match
