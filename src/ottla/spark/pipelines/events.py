"""The texts of Spark's events while a pipeline runs, and their meaning.

Spark sends each event as one line of text ("Flow spark_catalog.default.orders is RUNNING."), followed by an
error's text where there is one. The states are Spark's words, in lower case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

QUEUED, PLANNING, STARTING, RUNNING = "queued", "planning", "starting", "running"
COMPLETED, FAILED, SKIPPED, STOPPED, EXCLUDED, IDLE = (
    "completed",
    "failed",
    "skipped",
    "stopped",
    "excluded",
    "idle",
)
ENDED: Final = frozenset({COMPLETED, FAILED, SKIPPED, STOPPED, EXCLUDED, IDLE})

_FLOW: Final = (
    (re.compile(r"Flow '?(?P<flow>[^'\s]+)'? (?:is|has) (?P<state>[A-Z]+)\b"), None),
    (re.compile(r"Flow '?(?P<flow>[^'\s]+)'? is IDLE"), IDLE),
    (re.compile(r"Flow '?(?P<flow>[^'\s]+)'? SKIPPED due to upstream"), SKIPPED),
    (re.compile(r"Flow '?(?P<flow>[^'\s]+)'? has been processed by a previous iteration"), SKIPPED),
    (re.compile(r"Failed to resolve flow due to upstream failure: '(?P<flow>[^']+)'"), SKIPPED),
    (re.compile(r"Failed to resolve flow: '(?P<flow>[^']+)'"), FAILED),
)
_STATES: Final = frozenset({QUEUED, PLANNING, STARTING, RUNNING}) | ENDED


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """A flow has entered a state; `error` is what Spark says about a failure."""

    flow: str
    state: str
    error: str | None = None


def parse_event(message: str) -> FlowEvent | None:
    """The news of a flow in an event; None where the event is about something else."""
    head, _, rest = message.partition("\n")
    for pattern, state in _FLOW:
        found = pattern.match(head)
        if found is None:
            continue
        reached = state or found["state"].lower()
        if reached in _STATES:
            return FlowEvent(short_name(found["flow"]), reached, rest.strip() or None)
    return None


def short_name(flow: str) -> str:
    """The last part of a flow's full name, which is how its definition calls it."""
    return flow.rpartition(".")[2].strip("`")
