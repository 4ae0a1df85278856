"""The program behind the members of a Python client: one line of JSON per question and per answer.

python -m tests.clients.groups.programs.program confluent|aiokafka|kafka-python
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from tests.clients.groups.model import Committed, Membership
from tests.clients.groups.programs.running import RunningMember
from tests.clients.model import RefusedError

MODULES = {
    "confluent": "confluent_consumer",
    "aiokafka": "aiokafka_consumer",
    "kafka-python": "kafka_python_consumer",
    "ottla": "ottla_consumer",
}


class Program:
    """The members of this process, by name."""

    def __init__(self, family: str) -> None:
        module = importlib.import_module(f"tests.clients.groups.programs.{MODULES[family]}")
        self._make = module.connect
        self._members: dict[str, RunningMember] = {}

    def ask(self, op: str, member: str = "", **arguments: Any) -> Any:
        if op == "ping":
            return None
        if op == "join":
            self._members[member] = RunningMember(_membership(arguments), self._make)
            return None
        answer: Callable[..., Any] = getattr(self, f"_{op}")
        return answer(self._members[member], **arguments)

    def _look(self, member: RunningMember, seen: int) -> Any:
        log = member.log
        return {
            "member_id": log.member_id,
            "assignment": sorted(log.assignment),
            "records": [astuple(record) for record in log.records[seen:]],
            "events": [[event.kind, sorted(event.partitions)] for event in list(log.events)],
            "errors": list(log.errors),
        }

    def _hold(self, member: RunningMember) -> None:
        member.is_held = True
        member.ask(lambda consumer: None)  # when this is answered, it does not poll any more

    def _go_on(self, member: RunningMember) -> None:
        member.is_held = False

    def _commit(self, member: RunningMember, offsets: Any, is_async: bool) -> None:
        wanted = None if offsets is None else [Committed(*one) for one in offsets]
        member.ask(lambda consumer: consumer.commit(wanted, is_async=is_async))

    def _committed(self, member: RunningMember, partitions: Any) -> Any:
        asked = [tuple(one) for one in partitions]
        return [astuple(one) for one in member.ask(lambda consumer: consumer.committed(asked))]

    def _pause(self, member: RunningMember, partitions: Any) -> None:
        member.ask(lambda consumer: consumer.pause([tuple(one) for one in partitions]))

    def _resume(self, member: RunningMember, partitions: Any) -> None:
        member.ask(lambda consumer: consumer.resume([tuple(one) for one in partitions]))

    def _seek(self, member: RunningMember, partition: Any, offset: int) -> None:
        member.ask(lambda consumer: consumer.seek(tuple(partition), offset))

    def _leave(self, member: RunningMember) -> None:
        member.close()


def _membership(arguments: dict[str, Any]) -> Membership:
    partitions = tuple((topic, partition) for topic, partition in arguments.pop("partitions"))
    topics, assignors = tuple(arguments.pop("topics")), tuple(arguments.pop("assignors"))
    return Membership(topics=topics, assignors=assignors, partitions=partitions, **arguments)


def answer(program: Program, line: str) -> dict[str, Any]:
    try:
        return {"ok": program.ask(**json.loads(line))}
    except RefusedError as error:
        return {"refused": error.code, "message": str(error)}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}


def main() -> None:
    program = Program(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(answer(program, line)), flush=True)


if __name__ == "__main__":
    main()
