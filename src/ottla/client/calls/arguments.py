"""Arguments of public calls, checked before anything is done with them.

Rules
- Each function takes the argument's name and its value, and returns the value in the form that the client
  works with. A wrong type is a TypeError, a wrong value a ValueError; the message is one sentence that begins
  with the argument's name and, where a slip is common, shows the form that was meant.
- A text where a list is expected is the commonest slip: Python would take its letters. It is refused.
- Whole numbers may be of any integer type (numpy's too), but not a bool and not a float.
- A value that passes can be written to the wire: numbers have the wire's bounds, texts are valid UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import index
from typing import Any, Final, TypeVar

from ottla.model import Address, TopicPartition, parse_addresses
from ottla.security.settings import PLAINTEXT, Security

T = TypeVar("T")
K = TypeVar("K")

MOST_INT16: Final = 2**15 - 1
MOST_INT32: Final = 2**31 - 1
MOST_INT64: Final = 2**63 - 1
_SHOWN_CHARACTERS: Final = 60


def text(name: str, value: object) -> str:
    """A text that Kafka's protocol can carry."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, not {_shown(value)}")
    if not (value.isascii() or _is_unicode(value)):
        raise ValueError(f"{name} has characters that UTF-8 cannot carry: {_shown(value)}")
    if len(value) > MOST_INT16 // 4 and len(value.encode()) > MOST_INT16:
        raise ValueError(f"{name} has {len(value)} characters: Kafka's protocol allows {MOST_INT16} bytes")
    return value


def name_of(name: str, value: object) -> str:
    """A text that is not empty: the name of a topic, a group, a client."""
    if not text(name, value):
        raise ValueError(f"{name} must not be empty")
    return str(value)


def security_of(value: object) -> Security:
    """How to reach the cluster; without a word, in plain text."""
    if value is None:
        return PLAINTEXT
    if not isinstance(value, Security):
        raise TypeError(f"security must be an ottla.Security, not a {type(value).__name__}")
    return value


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {_shown(value)}")
    return value


def whole_number(name: str, value: object, least: int = 0, most: int = MOST_INT64) -> int:
    """A whole number within bounds."""
    number = _index(value)
    if number is None:
        raise TypeError(f"{name} must be a whole number, not {_shown(value)}")
    return int(_within(name, number, least, most))


def timestamp_ms(name: str, value: object) -> int:
    """Milliseconds since 1970."""
    number = _index(value)
    if number is None:
        raise TypeError(
            f"{name} must be a whole number of milliseconds since 1970, not {_shown(value)}: "
            "int(time.time() * 1000) is the present time"
        )
    if not 0 <= number <= MOST_INT64:
        raise ValueError(f"{name} must be milliseconds since 1970, from 0 to 2**63 - 1, not {_shown(number)}")
    return number


def duration_ms(name: str, value: object, least: int = 0) -> float:
    """A duration in milliseconds, perhaps with a fraction."""
    if not isinstance(value, float) and (value := _index(given := value)) is None:
        raise TypeError(f"{name} must be a number of milliseconds, not {_shown(given)}")
    return _within(name, value, least, MOST_INT32)


def function(name: str, value: T | None) -> T | None:
    """Something that can be called, or None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function, not {_shown(value)}")
    return value


def one_of(name: str, value: object, choices: Collection[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} cannot be {_shown(value)}: choose from {', '.join(choices)}")
    return value


def names(name: str, values: object) -> list[str]:
    """Several names."""
    return [name_of(f"each of {name}", each) for each in _several(name, values, "names", str)]


def partition(name: str, value: object) -> TopicPartition:
    """A topic and a partition of it: a TopicPartition, or a plain pair."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(f'{name} must be a TopicPartition("topic", 0), not {_shown(value)}')
    topic = name_of(f"the topic of {name}", value[0])
    return TopicPartition(topic, whole_number(f"the partition of {name}", value[1], most=MOST_INT32))


def partitions(name: str, values: object) -> list[TopicPartition]:
    """Several partitions."""
    several = _several(name, values, "partitions", TopicPartition)
    return [partition(f"each of {name}", each) for each in several]


def numbers(name: str, values: object) -> list[int]:
    """Several node ids."""
    several = _several(name, values, "numbers", int)
    return [whole_number(f"each of {name}", each, most=MOST_INT32) for each in several]


def count(name: str, value: object) -> int:
    """A number of partitions."""
    return whole_number(name, value, 1, MOST_INT32)


def broker(name: str, value: object) -> int:
    """The number of a node."""
    return whole_number(name, value, most=MOST_INT32)


def items(name: str, values: object, kind: type[T] | tuple[type[T], ...], form: str) -> list[T]:
    """Several values of one class, or of one of some classes; `form` shows how one is written."""
    several = _several(name, values, "values", kind, form)
    for each in several:
        if not isinstance(each, kind):
            raise TypeError(f"each of {name} must be a {form}, not {_shown(each)}")
    return several


def mapped(
    name: str,
    values: object,
    check_key: Callable[[str, Any], K],
    check: Callable[[str, Any], T],
    form: str,
) -> dict[K, T]:
    """A dict whose keys and values are checked; `form` shows how it is written."""
    if not isinstance(values, Mapping):
        raise TypeError(f"{name} must be a dict such as {form}, not {_shown(values)}")
    made: dict[K, T] = {}
    for key, value in values.items():
        made[check_key(f"each key of {name}", key)] = check(f"{name}[{_shown(key)}]", value)
    return made


def by_name(name: str, values: object, check: Callable[[str, Any], T]) -> dict[str, T]:
    """A value for each of several names; `check` is called with a name for the value, and with the value."""
    return mapped(name, values, name_of, check, "{'name': …}")


def by_partition(name: str, values: object, check: Callable[[str, Any], T]) -> dict[TopicPartition, T]:
    """A value for each of several partitions, checked by `check`."""
    return mapped(name, values, partition, check, "{TopicPartition('topic', 0): …}")


def by_number(name: str, values: object, check: Callable[[str, Any], T]) -> dict[int, T]:
    """A value for each of several numbers, checked by `check`."""
    return mapped(name, values, whole_number, check, "{0: …}")


def offset(name: str, value: object) -> int:
    """The offset of a record."""
    return whole_number(name, value)


def addresses(name: str, value: object) -> tuple[Address, ...]:
    """The addresses of brokers: "one:9092,two:9092", or a list of such texts."""
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, list | tuple | set | frozenset) or not all(
        isinstance(each, str) for each in several
    ):
        raise TypeError(
            f'{name} must be text such as "one:9092,two:9092", or a list of such texts, not {_shown(value)}'
        )
    try:
        return parse_addresses(text("it", ",".join(several)))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _several(name: str, values: object, noun: str, one: type | tuple[type, ...], form: str = "") -> list[Any]:
    """The values in a list, if they are several; `one` is the class of a single value."""
    if isinstance(values, one):
        raise TypeError(
            f"{name} must be a list of {noun}, not a single one: write [{form or _shown(values)}]"
        )
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list of {noun}, not {_shown(values)}")
    return list(values)


def _index(value: object) -> int | None:
    """The value of a whole number, as an int; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        return index(value)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return None


def _within(name: str, number: float, least: int, most: int) -> float:
    if not least <= number <= most:  # so that NaN, which nothing compares to, is refused as well
        bound = f"at least {least}" if number < least else f"at most {most}"
        raise ValueError(f"{name} must be {bound}, not {_shown(number)}")
    return number


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    """A value in a message: short, whatever its own `repr` does."""
    try:
        shown = repr(value)
    except Exception:
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}…"
