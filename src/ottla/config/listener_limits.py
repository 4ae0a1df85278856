"""Limits of one listener, which stand behind its name: `listener.name.clients.max.connections=100`.

Kafka has these two among the settings that a listener can have of its own; both may change while the broker runs.
"""

import re
from collections.abc import Mapping
from typing import Final

from ottla.config.setting import ConfigError, ConfigType, Setting

MAX_CONNECTIONS: Final = "max.connections"
MAX_CONNECTION_CREATION_RATE: Final = "max.connection.creation.rate"
_DOCS: Final = {
    MAX_CONNECTIONS: "How many connections the listener keeps open; beyond that new ones are closed at once.",
    MAX_CONNECTION_CREATION_RATE: "How many connections per second the listener accepts; more wait to be accepted.",
}
LISTENER_LIMITS: Final = tuple(_DOCS)
_LEAST: Final = {MAX_CONNECTIONS: 0, MAX_CONNECTION_CREATION_RATE: 1}
_NAME: Final = re.compile(
    rf"listener\.name\.(?P<listener>[A-Za-z0-9_-]+)\.(?P<limit>{'|'.join(map(re.escape, _DOCS))})"
)

# Values by the names of their settings, in the order of the names.
ListenerLimits = tuple[tuple[str, int], ...]


def listener_setting(name: str) -> Setting | None:
    """The declaration of a listener's limit; None for a name of another kind."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    limit = found["limit"]
    return Setting(name, "", ConfigType.INT, None, _DOCS[limit], at_least=_LEAST[limit], dynamic=True)


def changed_limits(before: ListenerLimits, texts: Mapping[str, str]) -> ListenerLimits:
    """The limits with some of them given anew. ConfigError for a value that is not allowed."""
    changed = dict(before)
    for name, text in texts.items():
        setting = listener_setting(name)
        if setting is not None:
            changed[name] = setting.parse(text)
    return tuple(sorted(changed.items()))


def limits_by_listener(limits: ListenerLimits, limit: str) -> dict[str, int]:
    """The values of one limit, by the names of listeners as `listeners` has them."""
    found = ((_NAME.fullmatch(name), value) for name, value in limits)
    return {
        match["listener"].upper(): value
        for match, value in found
        if match is not None and match["limit"] == limit
    }


def refuse_unknown_listeners(limits: ListenerLimits, names: set[str]) -> None:
    """Raise ConfigError for a limit of a listener that does not exist."""
    for name, _ in limits:
        match = _NAME.fullmatch(name)
        assert match is not None
        if match["listener"].upper() not in names:
            raise ConfigError(
                f"{name} limits a listener that is not in listeners: {', '.join(sorted(names)).lower()}."
            )
