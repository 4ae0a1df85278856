"""The bodies of consumer instances: settings, subscriptions, partitions, offsets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from ottla.client.requests.group_offsets import CommittedOffset
from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.gateway.http.machine.json_bodies import kind_of
from ottla.gateway.records.machine.embedded import FORMATS, EmbeddedFormat
from ottla.gateway.records.machine.produced import whole_number
from ottla.gateway.schema_values.machine.formats import TYPES, SchemaFormat
from ottla.model import TopicPartition

INVALID_SETTINGS: Final = 42204
CONFLICT: Final = 40903
_RESETS: Final = ("earliest", "latest", "none")
_ISOLATIONS: Final = ("read_uncommitted", "read_committed")
_MOST_INT32: Final = 2**31 - 1
# A name stands in paths and in the log.
_NAME: Final = re.compile(r"[^\x00-\x20/\x7f]{1,200}")
_PATTERN_CHARACTERS: Final = 200
_MOST_REPETITIONS: Final = 2


InstanceFormat = EmbeddedFormat | SchemaFormat


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """What a caller said about its instance; None where it said nothing."""

    name: str | None
    form: InstanceFormat
    reset: Literal["earliest", "latest", "none"]
    commits: bool
    isolation: Literal["read_uncommitted", "read_committed"]
    fetch_min_bytes: int
    wait_ms: int | None
    acknowledges: bool = False


def instance_settings(body: dict[str, Any]) -> InstanceSettings:
    """The settings in the body of POST /consumers/{group}. Numbers and booleans may be texts. Raises HttpError(422)."""
    known = {
        "name", "format", "auto.offset.reset", "auto.commit.enable", "fetch.min.bytes", "isolation.level",
        "consumer.request.timeout.ms", "ottla.acknowledgements",
    }  # fmt: skip
    if unknown := sorted(body.keys() - known):
        raise _refusal(f"there is no setting {unknown[0][:100]!r}: {', '.join(sorted(known))} can be given")
    name = body.get("name")
    if name is not None and (not isinstance(name, str) or not _NAME.fullmatch(name)):
        raise _refusal("name must be a text of 1 to 200 characters without spaces and slashes")
    wait = body.get("consumer.request.timeout.ms")
    acknowledges = _flag("ottla.acknowledgements", body.get("ottla.acknowledgements", False))
    return InstanceSettings(
        name,
        _format(body.get("format", "binary")),
        cast(Any, _choice("auto.offset.reset", body.get("auto.offset.reset", "latest"), _RESETS)),
        _flag("auto.commit.enable", body.get("auto.commit.enable", True)) and not acknowledges,
        cast(Any, _choice("isolation.level", body.get("isolation.level", "read_uncommitted"), _ISOLATIONS)),
        max(1, _number("fetch.min.bytes", body.get("fetch.min.bytes", 1), -1)),
        None if wait is None else _number("consumer.request.timeout.ms", wait, 0),
        acknowledges,
    )


def subscription(body: dict[str, Any], most_topics: int) -> list[str] | re.Pattern[str]:
    """The topics of POST .../subscription, or the pattern of their names. Raises HttpError(422 or 409)."""
    topics, pattern = body.get("topics"), body.get("topic_pattern")
    if (topics is None) is (pattern is None):
        raise HttpError(409, 'give either "topics" or "topic_pattern"', error_code=CONFLICT)
    if pattern is not None:
        return _pattern(pattern)
    return topic_names(topics, most_topics)


def topic_names(topics: Any, most_topics: int) -> list[str]:
    """Raises HttpError(422)."""
    if (
        not isinstance(topics, list)
        or not topics
        or not all(isinstance(each, str) and each for each in topics)
    ):
        raise unprocessable('"topics" must be a list of names of topics')
    if len(topics) > most_topics:
        raise unprocessable(f"a subscription may name {most_topics} topics (ottla.gateway.max.topics)")
    return list(dict.fromkeys(topics))


def partitions(body: dict[str, Any]) -> list[TopicPartition]:
    """The partitions of a body. Raises HttpError(422)."""
    return list(
        dict.fromkeys(_partition("partitions", index, each) for index, each in _items(body, "partitions"))
    )


def offsets_to_commit(body: dict[str, Any]) -> dict[TopicPartition, CommittedOffset]:
    """Offsets of records that are done: the group goes on with the one after. Raises HttpError(422)."""
    return {
        _partition("offsets", index, each): CommittedOffset(
            _offset(index, each) + 1, metadata=_metadata(index, each.get("metadata"))
        )
        for index, each in _items(body, "offsets")
    }


def listed_offsets(body: dict[str, Any]) -> list[tuple[TopicPartition, int]]:
    """The records that a body names; several of one partition. Raises HttpError(422)."""
    return [
        (_partition("offsets", index, each), _offset(index, each)) for index, each in _items(body, "offsets")
    ]


def positions(body: dict[str, Any]) -> dict[TopicPartition, int]:
    """Offsets to read from. Raises HttpError(422)."""
    return {
        _partition("offsets", index, each): _offset(index, each) for index, each in _items(body, "offsets")
    }


def _items(body: dict[str, Any], name: str) -> list[tuple[int, dict[str, Any]]]:
    items: Any = body.get(name)
    if not isinstance(items, list):
        raise unprocessable(f'the body must have "{name}": a list, not {kind_of(items)}')
    for index, each in enumerate(items):
        if not isinstance(each, dict):
            raise unprocessable(f"item {index} of {name} must be an object, not {kind_of(each)}")
    return list(enumerate(items))


def _partition(name: str, index: int, item: dict[str, Any]) -> TopicPartition:
    topic = item.get("topic")
    if not isinstance(topic, str) or not topic:
        raise unprocessable(f'item {index} of {name} must have "topic": the name of a topic')
    number = whole_number(f"the partition of item {index} of {name}", item.get("partition"), _MOST_INT32)
    return TopicPartition(topic, number)


def _offset(index: int, item: dict[str, Any]) -> int:
    return whole_number(f"the offset of item {index}", item.get("offset"), 2**63 - 2)


def _metadata(index: int, given: Any) -> str:
    if given is None:
        return ""
    if not isinstance(given, str) or len(given) > 4096:
        raise unprocessable(f"the metadata of item {index} must be a text of at most 4096 characters")
    return given


def _format(given: Any) -> InstanceFormat:
    return cast(InstanceFormat, _choice("format", given, (*FORMATS, *TYPES)))


def _choice(name: str, given: Any, choices: Sequence[str]) -> str:
    if not isinstance(given, str) or given.lower() not in choices:
        raise _refusal(f"{name} must be one of {', '.join(choices)}, not {str(given)[:50]!r}")
    return given.lower()


def _flag(name: str, given: Any) -> bool:
    if isinstance(given, str) and given.lower() in ("true", "false"):
        return given.lower() == "true"
    if not isinstance(given, bool):
        raise _refusal(f"{name} must be true or false, not {str(given)[:50]!r}")
    return given


def _number(name: str, given: Any, least: int) -> int:
    if isinstance(given, str) and given.isascii() and given.removeprefix("-").isdigit() and len(given) < 12:
        given = int(given)
    if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= _MOST_INT32:
        raise _refusal(f"{name} must be a whole number, at least {least}, not {str(given)[:50]!r}")
    return given


def _pattern(given: Any) -> re.Pattern[str]:
    if not isinstance(given, str) or not given or len(given) > _PATTERN_CHARACTERS:
        raise unprocessable(
            f"topic_pattern must be a regular expression of 1 to {_PATTERN_CHARACTERS} characters"
        )
    if "(" in given or len(re.findall(r"[*+?{]", given)) > _MOST_REPETITIONS:
        # Names that nearly match would take exponential time, and all callers share one event loop.
        raise unprocessable(f"topic_pattern may have no groups, and {_MOST_REPETITIONS} of * + ? {{ at most")
    try:
        return re.compile(given)
    except re.error as error:
        raise unprocessable(f"topic_pattern is no regular expression: {error}") from error


def _refusal(message: str) -> HttpError:
    return HttpError(422, message, error_code=INVALID_SETTINGS)
