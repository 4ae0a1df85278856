"""Writes docs/state-machines.md: `.venv/bin/python docs/generators/state_machines.py`.

The page has a diagram and a table for each machine that declares its transitions in a table. `tests/tidy`
fails while the page and the tables disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from ottla.client.membership.machine import group_member
from ottla.client.producer.machine import transaction
from ottla.group import classic
from ottla.raft import node
from ottla.transaction import metadata

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "state-machines.md"
# Transitions that at least this many states share are left out of the diagram, which they would hide.
_COMMON: Final = 4
_HEAD: Final = """\
# State machines

<!-- Generated from the tables of transitions by docs/generators/state_machines.py; change the tables. -->

The machines whose transitions stand in a table. Each machine looks its next state up in the table, or asserts
that the table has the transition.
"""


class Transition(NamedTuple):
    """A way from one state to another, and when it is taken."""

    source: str
    target: str
    when: str


@dataclass(frozen=True, slots=True)
class Machine:
    """One section of the page."""

    title: str
    source: str
    initial: str
    states: dict[str, str]
    transitions: list[Transition]


def machines() -> list[Machine]:
    """All machines that have a table."""
    return [
        Machine(
            "A node of the metadata quorum",
            "raft/node.py",
            node.State.UNATTACHED.name,
            {state.name: state.value for state in node.State},
            [Transition(a.name, b.name, when) for (a, b), when in node.TRANSITIONS.items()],
        ),
        Machine(
            "A consumer group, as its coordinator sees it",
            "group/classic.py",
            classic.GroupState.EMPTY.value,
            {state.value: meaning for state, meaning in classic.STATE_MEANINGS.items()},
            [
                Transition(state.value, target.value, event.value)
                for state, events in classic.TRANSITIONS.items()
                for event, target in events.items()
            ],
        ),
        Machine(
            "A transactional id, as its coordinator sees it",
            "transaction/metadata.py",
            metadata.TransactionState.EMPTY.value,
            {state.value: meaning for state, meaning in metadata.STATE_MEANINGS.items()},
            [
                Transition(state.value, target.value, event.value)
                for state, events in metadata.TRANSITIONS.items()
                for event, target in events.items()
            ],
        ),
        Machine(
            "A member of a consumer group, as the consumer sees it",
            "client/membership/machine/group_member.py",
            group_member.Phase.OUT.name,
            {phase.name: phase.value for phase in group_member.Phase},
            [Transition(a.name, b.name, when) for (a, b), when in group_member.TRANSITIONS.items()],
        ),
        Machine(
            "A transactional producer",
            "client/producer/machine/transaction.py",
            transaction.Phase.UNINITIALISED.name,
            {phase.name: phase.value for phase in transaction.Phase},
            [Transition(a.name, b.name, when) for (a, b), when in transaction.TRANSITIONS.items()],
        ),
    ]


def render(found: Iterable[Machine]) -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(line for machine in found for line in _section(machine))])


def _section(machine: Machine) -> Iterator[str]:
    yield f"## {machine.title}"
    yield f"`TRANSITIONS` in `src/ottla/{machine.source}`."
    yield ""
    yield "| state | meaning |"
    yield "|---|---|"
    yield from (f"| {state} | {meaning} |" for state, meaning in machine.states.items())
    yield ""
    yield from _diagram(machine)
    yield ""
    yield "| from | to | when |"
    yield "|---|---|---|"
    for (target, when), sources in _merged(machine).items():
        yield f"| {', '.join(sources)} | {target} | {when} |"
    yield ""


def _diagram(machine: Machine) -> Iterator[str]:
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"    [*] --> {machine.initial}"
    for (target, when), sources in _merged(machine).items():
        if len(sources) < _COMMON:
            # A colon or a semicolon would end the label.
            label = when.replace(":", ",").replace(";", ",")
            yield from (f"    {source} --> {target}: {label}" for source in sources)
    yield "```"
    common = {key: sources for key, sources in _merged(machine).items() if len(sources) >= _COMMON}
    if common:
        yield ""
        yield "Not in the diagram, because most states have them:"
        yield from (f"- to {target}: {when}" for target, when in common)


def _merged(machine: Machine) -> dict[tuple[str, str], list[str]]:
    """The sources of all transitions that have the same target for the same reason."""
    merged: dict[tuple[str, str], list[str]] = {}
    for source, target, when in machine.transitions:
        merged.setdefault((target, when), []).append(source)
    return merged


def main() -> None:
    PAGE.write_text(render(machines()), encoding="utf-8")


if __name__ == "__main__":
    main()
