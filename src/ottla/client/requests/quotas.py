"""Quotas as an administrator reads and changes them: DescribeClientQuotas and AlterClientQuotas 0 to 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.client.calls import arguments
from ottla.client.requests.outcomes import error_of, outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from ottla.security.quota.entities import CLIENT_ID, IP, USER

_FORM: Final = '{QuotaEntity(user="alice"): {"producer_byte_rate": 1_000_000}}'


class QuotaEntity(NamedTuple):
    """Who a quota is for: a user, a client id, both, or an address. None is not a part of it; an empty name stands
    for each user, client id or address that has no quota of its own.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __str__(self) -> str:
        parts = (
            ("user", "users", self.user),
            ("client id", "client ids", self.client_id),
            ("ip", "ips", self.ip),
        )
        return " and ".join(
            f"{one} {name}" if name else f"all other {many}" for one, many, name in parts if name is not None
        )


def quota_changes(name: str, changes: object) -> dict[QuotaEntity, dict[str, float | None]]:
    """Changes of quotas by entity. Raises TypeError and ValueError."""
    return arguments.mapped(name, changes, _entity, _values, _FORM)


def _entity(name: str, entity: object) -> QuotaEntity:
    if not isinstance(entity, QuotaEntity):
        raise TypeError(f"{name} must be a QuotaEntity(user='alice'), not {entity!r}")
    for part in entity:
        if part is not None:
            arguments.text(f"a part of {name}", part)
    return entity


def _values(name: str, values: object) -> dict[str, float | None]:
    return arguments.by_name(name, values, _value)


def _value(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, or None to remove the quota, not {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large: {value!r}") from None


def describe_quotas_request() -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest()


def described_quotas(
    response: DescribeClientQuotasResponse,
) -> dict[QuotaEntity, dict[str, float]] | KafkaError:
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code, response.error_message)
    return {
        _read_entity(each.entity): {item.key: item.value for item in each.values}
        for each in response.entries or ()
    }


def alter_quotas_request(
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        [
            EntryData(
                _written_entity(entity),
                [OpData(key, value or 0.0, remove=value is None) for key, value in values.items()],
            )
            for entity, values in changes.items()
        ]
    )


def altered_quotas(response: AlterClientQuotasResponse) -> dict[QuotaEntity, KafkaError | None]:
    return {
        _read_entity(each.entity): outcome(each.error_code, None, each.error_message)
        for each in response.entries
    }


def _written_entity(entity: QuotaEntity) -> list[EntityData]:
    parts = (USER, entity.user), (CLIENT_ID, entity.client_id), (IP, entity.ip)
    return [EntityData(kind, name or None) for kind, name in parts if name is not None]


def _read_entity(parts: Iterable[EntityData]) -> QuotaEntity:
    named = {part.entity_type: part.entity_name or "" for part in parts}
    return QuotaEntity(named.get(USER), named.get(CLIENT_ID), named.get(IP))
