"""Families as text: OpenMetrics 1.0, or the text format of Prometheus for those that do not ask for it.

The two differ in little. Prometheus' format names a counter with its `_total`, has no units, no exemplars, no
kind `info`, and no end; OpenMetrics ends with `# EOF`, so that a text that was cut off is noticed.

The text comes in pieces, one for each line or so: whoever has other work can do that in between.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Final

from ottla.telemetry.families import Exemplar, Family, Kind, Labels

OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_LABEL_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_HELP_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n"})
# As OpenMetrics says: labels of an exemplar, names and values together.
_MOST_EXEMPLAR_CHARACTERS: Final = 128


def accepts_openmetrics(accept: str) -> bool:
    """Whether an HTTP header `Accept` asks for OpenMetrics."""
    return "application/openmetrics-text" in accept.lower()


def exposition(families: Iterable[Family], *, openmetrics: bool) -> Iterator[str]:
    """The text of all families, in pieces."""
    # The labels of a partition come again with every family.
    texts: dict[Labels, str] = {(): ""}
    for family in families:
        yield _head(family, openmetrics)
        name = family.name
        for labels, value, suffix, exemplar in family.samples:
            text = texts.get(labels)
            if text is None:
                text = texts[labels] = _label_text(labels)
            line = f"{name}{suffix}{text} {_number(value)}"
            if exemplar is not None and openmetrics:
                line += _exemplar_text(exemplar)
            yield line + "\n"
    if openmetrics:
        yield "# EOF\n"


def _head(family: Family, openmetrics: bool) -> str:
    name, kind = family.name, family.kind.value
    if not openmetrics:
        if family.kind is Kind.COUNTER:
            name += "_total"
        elif family.kind is Kind.INFO:
            name, kind = name + "_info", "gauge"
    # Without a sentence, as some scrapers want it, there is nothing to escape wrongly; here each has one.
    lines = f"# HELP {name} {family.help.translate(_HELP_ESCAPES)}\n# TYPE {name} {kind}\n"
    if openmetrics and family.unit:
        lines += f"# UNIT {name} {family.unit}\n"
    return lines


def _label_text(labels: Labels) -> str:
    return "{" + ",".join([f'{name}="{value.translate(_LABEL_ESCAPES)}"' for name, value in labels]) + "}"


def _number(value: float) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, bool):
        return "1" if value else "0"
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _exemplar_text(exemplar: Exemplar) -> str:
    if sum(len(name) + len(value) for name, value in exemplar.labels) > _MOST_EXEMPLAR_CHARACTERS:
        return ""
    return f" # {_label_text(exemplar.labels)} {_number(exemplar.value)} {exemplar.at_s:.3f}"
