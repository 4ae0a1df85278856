"""Client quotas as records of the metadata log, and back."""

from collections.abc import Iterator, Mapping

from ottla.controller.records import ClientQuotaRecord, QuotaEntityData
from ottla.security.quota.entities import ClientQuotas, Entity, entity_of


def quota_record(entity: Entity, key: str, value: float, *, remove: bool = False) -> ClientQuotaRecord:
    """The record that sets a quota, or removes it."""
    return ClientQuotaRecord([QuotaEntityData(*part) for part in entity], key, value, remove)


def quota_records(quotas: ClientQuotas) -> Iterator[ClientQuotaRecord]:
    """All quotas, for a snapshot."""
    for entity, values in sorted(quotas.items(), key=lambda item: repr(item[0])):
        for key, value in sorted(values.items()):
            yield quota_record(entity, key, value)


def change_quota(quotas: dict[Entity, Mapping[str, float]], record: ClientQuotaRecord) -> None:
    """Replay a record; an entity without quotas does not exist."""
    entity = entity_of({part.entity_type: part.entity_name for part in record.entity})
    values = {key: value for key, value in quotas.pop(entity, {}).items() if key != record.key}
    if not record.remove:
        values[record.key] = record.value
    if values:
        quotas[entity] = values
