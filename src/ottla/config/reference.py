"""Renders docs/settings.md from the declarations; docs/generators/settings.py writes it."""

import sys
from collections.abc import Iterable

from ottla.config.broker import BrokerConfig
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.gateway import GatewayConfig
from ottla.config.listener_limits import LISTENER_LIMITS, listener_setting
from ottla.config.setting import INT_MAX, LONG_MAX, Setting, settings_of
from ottla.config.topic import TopicConfig

_UNLIMITED = (INT_MAX, LONG_MAX, sys.float_info.max)

_OPENING = """\
# Settings

<!-- Generated from src/ottla/config by docs/generators/settings.py; change it there. -->

Names and defaults are Apache Kafka's; settings that begin with `ottla.` are Ottla's own. A setting can stand
in a properties file, in the environment (`OTTLA_LOG_SEGMENT_BYTES` sets `log.segment.bytes`) and on the
command line; the later of these wins. An unknown name is refused.
"""


_OF_LISTENERS = """
## Listener

A limit of one listener has the name of the listener, in small letters, in its own name: here it is `clients`.
Both limits can be changed while the broker runs.
"""


def render_reference() -> str:
    """The whole page."""
    parts = (
        _OPENING,
        "## Broker\n\nSettings marked ⟳ can be changed while the broker runs.\n",
        _table(("setting", "default", "allowed", "meaning"), map(_broker_row, settings_of(BrokerConfig))),
        _OF_LISTENERS,
        _table(("setting", "allowed", "meaning"), map(_listener_row, _listener_settings())),
        "\n## Topic\n\nA topic's own value takes precedence over the broker's setting in the second column.\n",
        _table(("setting", "broker's", "default", "meaning"), map(_topic_row, settings_of(TopicConfig))),
        "\n## Client metrics\n\nSettings of a subscription to metrics of clients ([Monitoring](monitoring.md)).\n",
        _table(
            ("setting", "default", "allowed", "meaning"), map(_broker_row, settings_of(ClientMetricsConfig))
        ),
        "\n## Gateway\n\nSettings of `ottla gateway`, in its `--config` file or by `--set` ([The gateway](gateway.md)).\n",
        _table(("setting", "default", "allowed", "meaning"), map(_broker_row, settings_of(GatewayConfig))),
    )
    return "\n".join(parts)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _broker_row(declared: Setting) -> tuple[str, ...]:
    name = f"`{declared.name}`" + (" ⟳" if declared.dynamic else "")
    return (name, _default(declared), declared.allowed, declared.doc)


def _listener_settings() -> list[Setting]:
    found = (listener_setting(f"listener.name.clients.{limit}") for limit in LISTENER_LIMITS)
    return [declared for declared in found if declared is not None]


def _listener_row(declared: Setting) -> tuple[str, ...]:
    return (f"`{declared.name}`", declared.allowed, declared.doc)


def _topic_row(declared: Setting) -> tuple[str, ...]:
    synonyms = ", ".join(f"`{name}`" for name in declared.synonyms)
    return (f"`{declared.name}`", synonyms, _default(declared), declared.doc)


def _default(declared: Setting) -> str:
    if declared.default in _UNLIMITED:
        return "no limit"
    text = declared.render(declared.default)
    return "not set" if text is None else f"`{text}`"
