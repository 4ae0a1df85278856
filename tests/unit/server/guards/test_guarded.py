"""Every API with checks has a guard, or a handler that checks."""

from ottla.protocol.apis import DECLARED_APIS, ApiKey
from ottla.security.acl.checks import UNCHECKED
from ottla.server.guards.guarded import CHECKED_BY_HANDLER, steps_of


def test_every_served_api_is_guarded() -> None:
    unguarded = {key for key in map(ApiKey, DECLARED_APIS) if not steps_of(key)}
    assert unguarded <= UNCHECKED | CHECKED_BY_HANDLER
