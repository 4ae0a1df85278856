"""The bodies that create topics and change settings."""

from __future__ import annotations

from typing import Any, Final

from ottla.client.requests.configs import ConfigChange, ConfigOperation
from ottla.client.requests.topics import NewTopic
from ottla.gateway.http.machine.http_error import HttpError

_MOST_INT16: Final = 2**15 - 1
_MOST_INT32: Final = 2**31 - 1


def new_topic(body: dict[str, Any]) -> tuple[NewTopic, bool]:
    """The topic to create, and whether it shall only be checked. Raises HttpError(400)."""
    name = body.get("topic_name")
    if not isinstance(name, str) or not name:
        raise refusal("topic_name must be the name of a topic")
    configs = {each.name: each.value for each in _changes(body.get("configs", []), "configs")}
    for key, value in configs.items():
        if value is None:
            raise refusal(f"the setting {key[:100]} has no value")
    topic = NewTopic(
        name,
        _count(body, "partitions_count", _MOST_INT32),
        _count(body, "replication_factor", _MOST_INT16),
        {key: value for key, value in configs.items() if value is not None},
    )
    return topic, _flag(body)


def config_changes(body: dict[str, Any]) -> tuple[list[ConfigChange], bool]:
    """The changes of configs:alter, and whether they shall only be checked. Raises HttpError(400)."""
    changes = _changes(body.get("data"), "data")
    if not changes:
        raise refusal("data must name one setting at least")
    return changes, _flag(body)


def config_value(body: dict[str, Any]) -> str:
    """The value of one setting. Raises HttpError(400)."""
    value = body.get("value")
    if not isinstance(value, str):
        raise refusal("value must be a text")
    return value


def refusal(message: str) -> HttpError:
    return HttpError(400, message, error_code=40002)


def _changes(given: Any, name: str) -> list[ConfigChange]:
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise refusal(f"{name} must be a list of objects with name and value")
    return [_change(each) for each in given]


def _change(given: dict[str, Any]) -> ConfigChange:
    name, value, operation = given.get("name"), given.get("value"), given.get("operation", "SET")
    if not isinstance(name, str) or not name:
        raise refusal("each setting must have a name")
    if operation == "DELETE":
        return ConfigChange(name, None, ConfigOperation.DELETE)
    if operation not in ("SET", None):
        raise refusal(f"the operation of {name[:100]} must be SET or DELETE")
    if not isinstance(value, str):
        raise refusal(f"the value of {name[:100]} must be a text")
    return ConfigChange(name, value)


def _count(body: dict[str, Any], name: str, most: int) -> int:
    value = body.get(name, -1)
    if value is None:
        return -1
    if not isinstance(value, int) or isinstance(value, bool) or not (value == -1 or 1 <= value <= most):
        raise refusal(f"{name} must be a whole number from 1 on")
    return value


def _flag(body: dict[str, Any]) -> bool:
    value = body.get("validate_only", False)
    if not isinstance(value, bool):
        raise refusal("validate_only must be true or false")
    return value
