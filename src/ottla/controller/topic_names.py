"""Which topic names are allowed: Kafka's rules, because a name is also a directory and the name of
metrics.
"""

import re
from typing import Final

from ottla.errors import ErrorCode, KafkaError

# A partition's directory is the name, a dash and a number, and sometimes a suffix; file systems end at 255.
MAX_NAME_LENGTH: Final = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION, with a sentence, unless the name is allowed."""
    refusal = _refusal(name)
    if refusal is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, refusal)


def is_topic_name(name: str) -> bool:
    """Whether the name is allowed."""
    return _refusal(name) is None


def folded(name: str) -> str:
    """Two names that fold to the same text cannot both exist: metrics write '.' as '_'."""
    return name.replace(".", "_")


def _refusal(name: str) -> str | None:
    if not name:
        return "A topic's name cannot be empty."
    if name in (".", ".."):
        return f"A topic cannot be called '{name}'."
    if len(name) > MAX_NAME_LENGTH:
        return f"A topic's name can have {MAX_NAME_LENGTH} characters; this one has {len(name)}."
    if not _LEGAL.fullmatch(name):
        return f"The topic name '{name}' has characters other than letters, digits, '.', '_' and '-'."
    return None
