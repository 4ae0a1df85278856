"""The options `kafka.security.*`, `kafka.ssl.*` and `kafka.sasl.*`: how the source, the sink and the audit reach a
secured cluster.

Spark's Kafka connector hands them to Java's clients; here they become a `Security`, which shows no secret in its
text. Secrets travel to the executors inside the pickled tasks, and stand neither in offsets nor in checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.security.settings import Security
from ottla.spark.option_values import OptionError

_PREFIX: Final = "kafka."
_FAMILIES: Final = ("sasl.", "ssl.", "security.")
# Java classes that would add algorithms.
_WITHOUT_EFFECT: Final = ("security.providers",)


def is_about_security(name: str) -> bool:
    """Whether a setting, without its prefix, says how the cluster is secured."""
    return name.startswith(_FAMILIES) and name not in _WITHOUT_EFFECT


def security_of(options: Mapping[str, str]) -> Security:
    """The security settings among options, whose names have their prefix. Raises OptionError, without a secret."""
    names = {option: option.lower().removeprefix(_PREFIX) for option in options}
    given = {
        name: options[option]
        for option, name in names.items()
        if option.lower().startswith(_PREFIX) and is_about_security(name)
    }
    try:
        return Security.from_properties(given)
    except ValueError as error:
        raise OptionError(
            f"The options 'kafka.security.*', 'kafka.ssl.*' and 'kafka.sasl.*': {error}."
        ) from None
