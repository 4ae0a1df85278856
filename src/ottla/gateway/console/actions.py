"""What the console can change: shown first, then done.

    POST /console/api/actions/delete-topic   {"topic": "orders", "preview": true}

An action is planned from a request: the plan says what exactly would happen, how much it would destroy, and which
command does the same. With `preview` the plan is the answer, and nothing happens; a console that only reads gives
plans, too, so that its user can take the command. Without `preview` the plan is carried out and its outcome answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.gateway.console.door import Door, Visit
from ottla.gateway.console.machine.questions import Body
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.routes import Route

READ_ONLY: Final = (
    "this console only reads: start the gateway with --console-writes (ottla.gateway.console=write),"
    " or run the command yourself"
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What an action would do.

    `what` is a sentence; `rows` are details as a table; `is_destructive` asks the user to type `name`. `carry_out`
    returns what came of it.
    """

    what: str
    command: str
    carry_out: Callable[[], Awaitable[str]]
    is_destructive: bool = False
    name: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)

    def shown(self, *, may_write: bool) -> dict[str, Any]:
        return {
            "what": self.what,
            "command": self.command,
            "is_destructive": self.is_destructive,
            "name": self.name,
            "rows": self.rows,
            "may_write": may_write,
            "refusal": None if may_write else READ_ONLY,
        }


Planner = Callable[[Visit, Body], Awaitable[Plan]]


class Actions:
    """Plans and carries out actions by their name."""

    def __init__(self, door: Door, planners: Mapping[str, Planner], *, may_write: bool) -> None:
        self._door = door
        self._planners = planners
        self._may_write = may_write

    def routes(self) -> tuple[Route, ...]:
        return (
            self._door.changes(
                "/actions/{action}", self._act, "Plan an action, or carry it out: the console's changes."
            ),
        )

    async def _act(self, visit: Visit) -> Any:
        planner = self._planners.get(visit.params["action"])
        if planner is None:
            raise HttpError(404, f"there is no action {visit.params['action'][:50]!r}")
        body = visit.body()
        is_preview = body.flag("preview")
        if not is_preview and not self._may_write:
            raise HttpError(403, READ_ONLY, error_code=40301)
        plan = await planner(visit, body)
        if is_preview:
            return plan.shown(may_write=self._may_write)
        return {"done": await plan.carry_out(), "command": plan.command}


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 record, 1,204 records."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
