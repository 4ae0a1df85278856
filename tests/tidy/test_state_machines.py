"""The page of state machines is the one that the tables of transitions make."""

from __future__ import annotations

from docs.generators import state_machines


def test_the_page_is_the_generated_one() -> None:
    page = state_machines.render(state_machines.machines())
    hint = "docs/state-machines.md is stale; run: .venv/bin/python docs/generators/state_machines.py"
    assert state_machines.PAGE.read_text(encoding="utf-8") == page, hint


def test_every_state_can_be_reached_and_has_a_meaning() -> None:
    for machine in state_machines.machines():
        reached, before = {machine.initial}, set[str]()
        while reached != before:
            before = set(reached)
            reached |= {each.target for each in machine.transitions if each.source in before}
        assert reached == set(machine.states), machine.title
