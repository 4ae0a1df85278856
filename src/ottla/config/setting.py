"""A setting: a name, a type, bounds and a sentence; and how its text is read and written.

Values arrive as text (files, flags, environment, AlterConfigs) and leave as text (DescribeConfigs), so one
`Setting` knows both directions. Every refusal is one sentence that names the setting, the value and what is
allowed.

A family of settings is a frozen dataclass whose fields are declared with `setting`; a configuration is a
family, or a dataclass whose fields are families.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from enum import IntEnum
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

WITHOUT_EFFECT = "Without effect here. "
"""How the description of a setting begins that is only accepted and kept."""

_DECIMAL = re.compile(r"[+-]?[0-9]{1,19}")


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one sentence for the person who wrote it."""


class ConfigType(IntEnum):
    """Kafka's numbers for the types of settings, as DescribeConfigs sends them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


_INTEGER_RANGES = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), INT_MAX),
    ConfigType.LONG: (-(2**63), LONG_MAX),
}
_INFERRED_TYPES = {
    bool: ConfigType.BOOLEAN,
    str: ConfigType.STRING,
    int: ConfigType.INT,
    float: ConfigType.DOUBLE,
    tuple: ConfigType.LIST,
}
_TYPE_WORDS = {
    ConfigType.SHORT: "a whole number",
    ConfigType.INT: "a whole number",
    ConfigType.LONG: "a whole number",
    ConfigType.DOUBLE: "a number",
    ConfigType.BOOLEAN: "true or false",
}


@dataclass(frozen=True, slots=True)
class Form:
    """A regular expression, and the same in words for a sentence: "it must be …"."""

    pattern: str
    words: str

    def fits(self, text: str) -> bool:
        return re.fullmatch(self.pattern, text) is not None


@dataclass(frozen=True, slots=True)
class Setting:
    """One declared setting. `dynamic` means that it may change while the broker runs.

    `attribute` says where a configuration keeps the value, with dots between: `groups.max_size`.
    """

    name: str
    attribute: str
    type: ConfigType
    default: Any
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    dynamic: bool = False
    synonyms: tuple[str, ...] = ()  # of a topic setting: the broker settings that give its default
    form: Form | None = None  # of the text, or of each item of a list
    has_effect: bool = True
    sensitive: bool = False  # a secret: shown by no description, message or representation

    def parse(self, text: str) -> Any:
        """Turn text into a value of this setting, or raise ConfigError."""
        text = text.strip()
        if self.type in _INTEGER_RANGES:
            return self._integer(text)
        if self.type is ConfigType.DOUBLE:
            return self._double(text)
        if self.type is ConfigType.BOOLEAN:
            return self._boolean(text)
        if self.type is ConfigType.LIST:
            return self._list(text)
        return self._choice(text)

    def value_in(self, config: object) -> Any:
        """The value that a configuration has for this setting."""
        return attrgetter(self.attribute)(config)

    def render(self, value: Any) -> str | None:
        """The text of a value as Kafka would print it; None for a setting that is not set."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value)

    @property
    def allowed(self) -> str:
        """The allowed values, as a phrase for messages."""
        if self.form is not None:
            return self.form.words
        if self.choices:
            listed = ", ".join(self.choices)
            return f"a list of: {listed}" if self.type is ConfigType.LIST else f"one of: {listed}"
        if self.type not in _TYPE_WORDS:
            return "a list, separated by commas" if self.type is ConfigType.LIST else "text"
        return _TYPE_WORDS[self.type] + self._bounds()

    def _bounds(self) -> str:
        low, high = self.at_least, self.at_most
        if low is not None and high is not None:
            return f" from {low} to {high}"
        if low is not None:
            return f", at least {low}"
        return "" if high is None else f", at most {high}"

    def _integer(self, text: str) -> int:
        if not _DECIMAL.fullmatch(text):
            raise self._refusal(text)
        if self.form is not None and not self.form.fits(text):
            raise self._refusal(text)
        low, high = _INTEGER_RANGES[self.type]
        value = int(text)
        if not low <= value <= high:
            raise ConfigError(f"{self.name} cannot be {text}: it must be between {low} and {high}.")
        return int(self._within_bounds(value, text))

    def _double(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise self._refusal(text) from None
        if value != value or value in (float("inf"), float("-inf")):
            raise self._refusal(text)
        return self._within_bounds(value, text)

    def _within_bounds(self, value: float, text: str) -> float:
        too_small = self.at_least is not None and value < self.at_least
        too_large = self.at_most is not None and value > self.at_most
        if too_small or too_large:
            raise self._refusal(text)
        return value

    def _boolean(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise self._refusal(text)
        return text.lower() == "true"

    def _list(self, text: str) -> tuple[str, ...]:
        items = tuple(item.strip() for item in text.split(",") if item.strip())
        if self.choices and not set(items) <= set(self.choices):
            raise self._refusal(text)
        if self.form is not None and not all(map(self.form.fits, items)):
            raise self._refusal(text)
        return tuple(dict.fromkeys(items))

    def _choice(self, text: str) -> str:
        if self.choices and text not in self.choices:
            raise self._refusal(text)
        if self.form is not None and not self.form.fits(text):
            raise self._refusal(text)
        return text

    def _refusal(self, text: str) -> ConfigError:
        shown = "(hidden)" if self.sensitive else text if len(text) <= 100 else text[:100] + "…"
        return ConfigError(f"{self.name} cannot be '{shown}': it must be {self.allowed}.")


def setting(
    name: str,
    default: T,
    *,
    doc: str,
    type: ConfigType | None = None,  # noqa: A002 - Kafka's word
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    dynamic: bool = False,
    synonyms: tuple[str, ...] = (),
    form: Form | None = None,
    has_effect: bool = True,
    sensitive: bool = False,
) -> T:
    """Declare a dataclass field as a setting; Kafka's type follows from the default unless told.

    A setting without effect is accepted, checked, kept and shown, so that definitions made for Kafka can be
    used as they are. The result is typed as the default, so that mypy compares the default with the field's
    own type.
    """
    kind = type or _INFERRED_TYPES[default.__class__]
    declared = Setting(
        name,
        "",
        kind,
        default,
        doc if has_effect else WITHOUT_EFFECT + doc,
        at_least,
        at_most,
        choices,
        dynamic,
        synonyms,
        form,
        has_effect,
        sensitive,
    )
    made: Any = field(default=default, metadata={"setting": declared})
    return made  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True, kw_only_default=True)
def family(cls: type[T]) -> type[T]:
    """Declare a family of settings: a frozen, slotted dataclass that is made from keywords."""
    # Every start imports all families, and dataclass compiles each method that it makes from text: methods
    # that all families share take four fifths off.
    made: Any = dataclass(init=False, slots=True, eq=False, repr=False, match_args=False)(cls)
    made.__init__, made.__repr__ = _set_up, _shown
    made.__eq__, made.__hash__ = _equals, _hashed
    made.__setattr__ = made.__delattr__ = _refuse_change
    return made  # type: ignore[no-any-return]


def _set_up(self: Any, **values: Any) -> None:
    for name, declared in self.__dataclass_fields__.items():
        object.__setattr__(self, name, values.pop(name) if name in values else declared.default)
    if values:
        raise TypeError(f"{type(self).__name__} has no setting {', '.join(values)}")


def _shown(self: Any) -> str:
    shown = (f"{name}={_shown_value(self, name)}" for name in self.__slots__)
    return f"{type(self).__name__}({', '.join(shown)})"


def _shown_value(config: Any, name: str) -> str:
    value, declared = getattr(config, name), config.__dataclass_fields__[name].metadata.get("setting")
    is_hidden = value is not None and declared is not None and declared.sensitive
    return "(hidden)" if is_hidden else repr(value)


def _equals(self: Any, other: Any) -> Any:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _hashed(self: Any) -> int:
    return hash(_values(self))


def _values(config: Any) -> tuple[Any, ...]:
    return tuple(getattr(config, name) for name in config.__slots__)


def _refuse_change(self: Any, name: str, value: object = None) -> None:
    raise FrozenInstanceError(f"{type(self).__name__}.{name} cannot be changed")


@cache
def settings_of(cls: type) -> Sequence[Setting]:
    """The settings that a configuration or a family declares, in the order of their declaration."""
    return tuple(_declared(cls, ""))


def _declared(cls: type[Any], within: str) -> Iterator[Setting]:
    for item in fields(cls):
        if "setting" in item.metadata:
            declared: Setting = item.metadata["setting"]
            yield replace(declared, attribute=within + item.name)
        elif is_dataclass(item.default):
            yield from _declared(type(item.default), f"{item.name}.")


@cache
def settings_by_name(cls: type) -> Mapping[str, Setting]:
    """The settings that a configuration or a family declares, by Kafka's name."""
    return {declared.name: declared for declared in settings_of(cls)}


def parse_values(cls: type, texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of named texts, by the attributes that hold them; ConfigError for the first bad one."""
    known = settings_by_name(cls)
    values = {}
    for name, text in texts.items():
        if name not in known:
            raise ConfigError(f"There is no setting '{name}'{suggestion(name, known)}")
        values[known[name].attribute] = known[name].parse(text)
    return values


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the closest known one, if any."""
    close = get_close_matches(name[:200], list(known), n=1, cutoff=0.75)
    return f"; did you mean '{close[0]}'?" if close else "."
