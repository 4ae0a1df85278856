"""Settings as text: Java's properties format, and names of environment variables."""

import re
from collections.abc import Iterator, Mapping

from ottla.config.broker import BrokerConfig
from ottla.config.setting import ConfigError, settings_of, suggestion

PREFIX = "OTTLA_"

_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_NAME_AND_VALUE = re.compile(r"((?:\\.|[^\\\s=:])*)\s*[=:]?\s*(.*)", re.DOTALL)
_CONTROL_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES = {"\\": "\\\\"} | {character: f"\\{code}" for code, character in _CONTROL_CHARACTERS.items()}


def parse_properties(text: str) -> dict[str, str]:
    """Read a .properties file: `name=value` lines, # and ! comments, a backslash at the end goes on below."""
    properties = {}
    for line in _logical_lines(text):
        match = _NAME_AND_VALUE.fullmatch(line)
        if match is None or not match[1]:
            # Not the line itself: it may be a secret.
            raise ConfigError(
                f"A line begins with '{line[0]}', so that it has no setting's name; write name=value."
            )
        properties[_unescaped(match[1])] = _unescaped(match[2])
    return properties


def render_properties(properties: Mapping[str, str]) -> str:
    """The text of a .properties file, from which `parse_properties` reads the same."""
    return "".join(f"{_escaped_name(name)}={_escaped_value(text)}\n" for name, text in properties.items())


def _escaped_name(name: str) -> str:
    return "".join(
        _ESCAPES.get(each, f"\\{each}" if each in "=:#!" or each.isspace() else each) for each in name
    )


def _escaped_value(text: str) -> str:
    escaped = "".join(_ESCAPES.get(each, each) for each in text)
    # Readers skip spaces after the equals sign, and one more equals sign or colon after those.
    is_skipped = escaped[:1].isspace() or escaped[:1] in ("=", ":")
    return f"\\{escaped}" if is_skipped else escaped


def _logical_lines(text: str) -> Iterator[str]:
    joined = ""
    for line in re.split(r"\r\n|\r|\n", text):
        line = line.lstrip()
        if not joined and (not line or line[0] in "#!"):
            continue
        joined += line
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield joined
        joined = ""
    if joined:
        yield joined


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_escaped_character, text)


def _escaped_character(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return _CONTROL_CHARACTERS.get(code, code)


def environment_name(setting_name: str) -> str:
    """The environment variable of a setting: log.segment.bytes is OTTLA_LOG_SEGMENT_BYTES."""
    return PREFIX + setting_name.removeprefix("ottla.").replace(".", "_").upper()


def properties_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings among the variables that begin with OTTLA_; a misspelt one is refused, not ignored."""
    known = {environment_name(declared.name): declared.name for declared in settings_of(BrokerConfig)}
    properties = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX):
            continue
        if variable not in known:
            raise ConfigError(
                f"The environment variable {variable} names no setting{suggestion(variable, known)}"
            )
        properties[known[variable]] = text
    return properties
