"""The answer to a request that says: all of it failed with this error.

Kafka's answers put error codes where the question has names: per topic, partition, group or resource, and
some also at the top. An answer is therefore made in the image of its request, item by item; below an item
that has an error code nothing more is said.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, Final

from ottla.errors import ErrorCode
from ottla.protocol.apis import ApiKey, api_of

# Lists of answers, and the lists of a request that they may answer.
_ASKED_IN: Final = {
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "partition_responses": ("partition_data",),
    "topics": ("topics",),
    "partitions": ("partitions", "partition_indexes"),
    "groups": ("groups",),
    "members": ("members",),
    "coordinators": ("coordinator_keys",),
    "results": (
        *("resources", "topics", "feature_updates", "groups_names"),
        *("creations", "deletions", "upsertions"),
    ),
    "replica_election_results": ("topic_partitions",),
    "partition_result": ("partitions",),
    "markers": ("markers",),
    "transaction_states": ("transactional_ids",),
    "results_by_transaction": ("transactions",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "topic_results": ("topics",),
    "results_by_partition": ("partitions",),
    "filter_results": ("filters",),
    "entries": ("entries",),
}
# Items of requests whose answers name nothing: they are told apart by their order.
_IN_ORDER: Final = frozenset({"creations", "filters", "entries"})
# Lists of a request that its answer repeats, as they name an item.
_REPEATED: Final = frozenset({"entity"})
# The fields that tell items apart; a plain item of a request (a name, a number) is the first of these that
# its answer has.
_IDENTITIES: Final = (
    *("key", "group_id", "member_id", "feature", "resource_name", "topic_name", "name", "topic"),
    *("transactional_id", "producer_id", "user"),
    *("partition_index", "partition_id", "partition", "index"),
)
_OTHER_NAMES: Final = {"partition_index": "partition", "user": "name"}
_ERROR_CODES: Final = frozenset({"error_code", "partition_error_code"})
# Offsets that are not known to whom failed.
_UNKNOWN: Final = {
    "base_offset",
    "high_watermark",
    "offset",
    "end_offset",
    "committed_offset",
    "low_watermark",
}


def refusal(api_key: ApiKey, request: Any, code: ErrorCode, message: str) -> Any:
    """The response in which everything that was asked for failed."""
    api = api_of(api_key)
    assert api is not None, "what has a handler is declared"
    refusing = _Refusing(code, message)
    response = refusing.answer(api.response, request)
    refusing.fill_lists(response, request)
    if api_key == ApiKey.FETCH and request.topics:
        # An error of the whole fetch says that the session is broken, not what is wrong with the partitions.
        response.error_code = ErrorCode.NONE
    if api_key == ApiKey.DESCRIBE_LOG_DIRS:
        # It is directories that can fail, and the request names topics.
        response.results = [refusing.answer(item_type, None) for item_type in _lists(api.response).values()]
    return response


@dataclasses.dataclass(frozen=True, slots=True)
class _Refusing:
    """The error that is written everywhere."""

    code: ErrorCode
    message: str

    def answer(self, answer_type: type[Any], asked: Any) -> Any:
        """One message, without its lists: the error, and what it has in common with what was asked."""
        answer = answer_type()
        for name in _names(answer_type):
            value = getattr(asked, name, getattr(asked, _OTHER_NAMES.get(name, ""), None))
            if name in _ERROR_CODES:
                setattr(answer, name, self.code)
            elif name == "error_message":
                answer.error_message = self.message
            elif name in _UNKNOWN:
                setattr(answer, name, -1)
            elif value is not None and (name in _REPEATED or not isinstance(value, list)):
                setattr(answer, name, value)
        return answer

    def fill_lists(self, answer: Any, asked: Any) -> None:
        for name, item_type in _lists(type(answer)).items():
            setattr(answer, name, [self._item(item_type, each) for each in _asked(item_type, name, asked)])

    def _item(self, item_type: type[Any], asked: Any) -> Any:
        item = self.answer(item_type, asked)
        if not dataclasses.is_dataclass(asked):
            setattr(item, next(name for name in _IDENTITIES if name in _names(item_type)), asked)
        elif _ERROR_CODES.isdisjoint(_names(item_type)):
            self.fill_lists(item, asked)
        return item


def _asked(item_type: type[Any], name: str, request: Any) -> list[Any]:
    """The items of a request that a list of answers stands for; none if it stands for something else."""
    if not _can_fail(item_type):
        return []
    found: list[Any] = []
    for source in _ASKED_IN.get(name, ()):
        items = getattr(request, source, None)
        if items and (source in _IN_ORDER or _is_about(item_type, items[0])):
            found += items
    return found


def _is_about(item_type: type[Any], asked: Any) -> bool:
    names = set(_IDENTITIES) & _names(item_type)
    names |= {_OTHER_NAMES[name] for name in names & _OTHER_NAMES.keys()}
    return bool(names) and (
        not dataclasses.is_dataclass(asked) or any(hasattr(asked, name) for name in names)
    )


def _can_fail(item_type: type[Any]) -> bool:
    return not _ERROR_CODES.isdisjoint(_names(item_type)) or any(map(_can_fail, _lists(item_type).values()))


def _names(message: type[Any]) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(message))


def _lists(message: type[Any]) -> dict[str, type[Any]]:
    """The fields of a message that are lists of messages, and of which."""
    found: dict[str, type[Any]] = {}
    for name, hint in typing.get_type_hints(message).items():
        parts = [hint, *typing.get_args(hint)]
        for part in parts:
            if typing.get_origin(part) is list and dataclasses.is_dataclass(item := typing.get_args(part)[0]):
                found[name] = item  # type: ignore[assignment]
    return found
