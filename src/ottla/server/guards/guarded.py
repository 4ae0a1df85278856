"""The guard of each API: the checks of the table, in front of the handler."""

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from ottla.protocol.apis import ApiKey
from ottla.security.acl.checks import CHECKS, Check, Refusal
from ottla.server.gate.handlers import Handler, Registered, Registration, RequestContext
from ottla.server.gate.rights import Rights
from ottla.server.guards import delegation_tokens, descriptions, transactions
from ottla.server.guards.fetch import fetch
from ottla.server.guards.offset_fetch import offset_fetch
from ottla.server.guards.steps import (
    NameOf,
    Proceed,
    Step,
    by,
    hides_items,
    itself,
    refuses_items,
    refuses_request,
    topic_of,
)

# Their handlers check by themselves, where they know the topics; the controller, whom a delegation token belongs to.
CHECKED_BY_HANDLER: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.METADATA,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
    }
)


def _each(api: ApiKey, items: str, name_of: NameOf) -> tuple[Step, ...]:
    """The checks of an API whose last one is about the items of its requests, and the others about the whole."""
    *whole, each = CHECKS[api]
    return (*map(refuses_request, whole), refuses_items(each, items, name_of))


_STEPS: Final[Mapping[ApiKey, tuple[Step, ...]]] = MappingProxyType(
    {
        ApiKey.FETCH: (fetch,),
        ApiKey.INIT_PRODUCER_ID: (transactions.init_producer_id,),
        ApiKey.LIST_OFFSETS: _each(ApiKey.LIST_OFFSETS, "topics", by("name")),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _each(ApiKey.OFFSET_FOR_LEADER_EPOCH, "topics", by("topic")),
        ApiKey.DELETE_RECORDS: _each(ApiKey.DELETE_RECORDS, "topics", by("name")),
        ApiKey.DESCRIBE_PRODUCERS: _each(ApiKey.DESCRIBE_PRODUCERS, "topics", by("name")),
        ApiKey.LIST_REMOTE_SEGMENTS: _each(ApiKey.LIST_REMOTE_SEGMENTS, "topics", by("name")),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (descriptions.describe_topic_partitions,),
        ApiKey.CREATE_TOPICS: (descriptions.create_topics,),
        ApiKey.DELETE_TOPICS: (
            *_each(ApiKey.DELETE_TOPICS, "topics", topic_of),
            *_each(ApiKey.DELETE_TOPICS, "topic_names", itself),
        ),
        ApiKey.CREATE_PARTITIONS: _each(ApiKey.CREATE_PARTITIONS, "topics", by("name")),
        ApiKey.FIND_COORDINATOR: (transactions.find_coordinator,),
        ApiKey.DESCRIBE_GROUPS: (descriptions.describe_groups,),
        ApiKey.LIST_GROUPS: (hides_items(CHECKS[ApiKey.LIST_GROUPS][0], "groups", "group_id"),),
        ApiKey.DELETE_GROUPS: _each(ApiKey.DELETE_GROUPS, "groups_names", itself),
        ApiKey.OFFSET_COMMIT: _each(ApiKey.OFFSET_COMMIT, "topics", topic_of),
        ApiKey.OFFSET_FETCH: (offset_fetch,),
        ApiKey.OFFSET_DELETE: _each(ApiKey.OFFSET_DELETE, "topics", by("name")),
        ApiKey.ADD_PARTITIONS_TO_TXN: (transactions.add_partitions_to_txn,),
        ApiKey.END_TXN: (transactions.end_txn,),
        ApiKey.TXN_OFFSET_COMMIT: _each(ApiKey.TXN_OFFSET_COMMIT, "topics", by("name")),
        ApiKey.DESCRIBE_TRANSACTIONS: (transactions.describe_transactions,),
        ApiKey.LIST_TRANSACTIONS: (
            hides_items(CHECKS[ApiKey.LIST_TRANSACTIONS][0], "transaction_states", "transactional_id"),
        ),
        ApiKey.DESCRIBE_CONFIGS: (descriptions.of_settings(ApiKey.DESCRIBE_CONFIGS),),
        ApiKey.ALTER_CONFIGS: (descriptions.of_settings(ApiKey.ALTER_CONFIGS),),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (descriptions.of_settings(ApiKey.INCREMENTAL_ALTER_CONFIGS),),
        ApiKey.CREATE_DELEGATION_TOKEN: (delegation_tokens.create_token,),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: (delegation_tokens.describe_tokens,),
        ApiKey.DESCRIBE_CLUSTER: (descriptions.describe_cluster,),
    }
)


def steps_of(api: ApiKey) -> tuple[Step, ...]:
    """The steps of an API's guard; those of an API that only refuses whole requests follow from the table."""
    if api in CHECKED_BY_HANDLER:
        return ()
    checks = CHECKS.get(api, ())
    return _STEPS[api] if api in _STEPS else tuple(_whole(checks))


def _whole(checks: Iterable[Check]) -> Iterable[Step]:
    for check in checks:
        assert check.refusal is Refusal.WHOLE, f"{check.api.name} needs a guard of its own"
        yield refuses_request(check)


def guarded(registered: Registered, rights: Rights) -> Registered:
    """The same handlers, each behind the guard of its API."""
    known: dict[int, Registration | None] = {}

    def find(api_key: int) -> Registration | None:
        if api_key not in known:
            registration = registered(api_key)
            known[api_key] = None if registration is None else _behind_guard(registration, rights, api_key)
        return known[api_key]

    return find


def _behind_guard(registration: Registration, rights: Rights, api_key: int) -> Registration:
    steps = steps_of(ApiKey(api_key))
    if not steps:
        return registration
    return Registration(partial(_guard, steps, rights, registration.handler), registration.make_gatherer)


def _guard(
    steps: tuple[Step, ...], rights: Rights, handler: Handler, context: RequestContext, request: Any
) -> Any:
    proceed: Proceed = partial(handler, context)
    for step in reversed(steps):
        proceed = partial(_next, step, rights, context, proceed)
    return proceed(request)


def _next(step: Step, rights: Rights, context: RequestContext, proceed: Proceed, request: Any) -> Any:
    return step(rights, context, request, proceed)
