"""Access control lists, users and quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.client.cluster.machine.retries import Attempt, Inquiry
from ottla.client.cluster.machine.single_brokers import by_any, one_answer
from ottla.client.requests import acls, quotas, users
from ottla.client.requests.quotas import QuotaEntity
from ottla.client.requests.users import UserChange
from ottla.errors import KafkaError
from ottla.security.acl.rules import Acl, AclFilter


def describe_acls(wanted: AclFilter) -> Inquiry[str, None, list[Acl]]:
    return one_answer(lambda _: acls.describe_acls_request(wanted), acls.described_acls)


def create_acls(wanted: Iterable[Acl]) -> Inquiry[Acl, None, None]:
    attempt: Attempt[Acl, None, None] = by_any(
        lambda pending, _: acls.create_acls_request(pending), acls.created_acls
    )
    return Inquiry(dict.fromkeys(wanted), attempt)


def delete_acls(filters: Iterable[AclFilter]) -> Inquiry[AclFilter, None, list[Acl]]:
    """Not repeatable: a second answer would not name the ACLs that the first request deleted."""
    attempt: Attempt[AclFilter, None, list[Acl]] = by_any(
        lambda pending, _: acls.delete_acls_request(pending), acls.deleted_acls
    )
    return Inquiry(dict.fromkeys(filters), attempt, is_repeatable=False)


def describe_users(
    names: Iterable[str] | None,
) -> Inquiry[str, None, dict[str, dict[str, int] | KafkaError]]:
    return one_answer(lambda _: users.describe_users_request(names), users.described_users)


def alter_users(
    changes: Iterable[UserChange], new_salt: Callable[[], bytes]
) -> Inquiry[str, list[UserChange], None]:
    by_user: dict[str, list[UserChange]] = {}
    for change in changes:
        by_user.setdefault(change.name, []).append(change)
    attempt: Attempt[str, list[UserChange], None] = by_any(
        lambda pending, _: users.alter_users_request(
            [change for some in pending.values() for change in some], new_salt
        ),
        lambda response, _: users.altered_users(response),
    )
    return Inquiry(by_user, attempt)


def describe_quotas() -> Inquiry[str, None, dict[QuotaEntity, dict[str, float]]]:
    return one_answer(lambda _: quotas.describe_quotas_request(), quotas.described_quotas)


def alter_quotas(
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
) -> Inquiry[QuotaEntity, Mapping[str, float | None], None]:
    attempt: Attempt[QuotaEntity, Mapping[str, float | None], None] = by_any(
        lambda pending, _: quotas.alter_quotas_request(pending),
        lambda response, _: quotas.altered_quotas(response),
    )
    return Inquiry(changes, attempt)
