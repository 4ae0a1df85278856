"""Groups seen from outside, in the same words for each client's admin interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tests.clients.groups.host import Host
from tests.clients.groups.model import Committed, Partition

AdminAbility = Literal[
    "delete",
    "alter_offsets",
    "alter_refused",  # it says so when members are there (kafkajs joins the group itself, and cannot)
    "delete_offsets",
    "remove_instance",
]


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member as an admin sees it."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group as an admin sees it. States have Kafka's names, whatever the client calls them."""

    state: str
    protocol: str
    members: tuple[DescribedMember, ...]


class GroupAdmin(Protocol):
    """A client's admin interface to groups; what the broker refuses is a `RefusedError`."""

    def list_groups(self) -> dict[str, str | None]:
        """The state of each group; None where the client does not say."""

    def describe_group(self, group: str) -> DescribedGroup: ...

    def delete_group(self, group: str) -> None: ...

    def offsets(self, group: str) -> list[Committed]:
        """All that are committed."""

    def alter_offsets(self, group: str, offsets: Sequence[Committed]) -> None: ...

    def delete_offsets(self, group: str, partitions: Sequence[Partition]) -> None: ...

    def remove_instance(self, group: str, instance_id: str) -> None: ...


def kafka_name(state: str) -> str:
    """A state as Kafka writes it, where a client has a name of its own for it (`PREPARING_REBALANCING`)."""
    return "".join(word.capitalize() for word in state.split("_")).replace("Rebalancing", "Rebalance")


class HostAdmin:
    """The admin interface of a client that lives in a program."""

    def __init__(self, host: Host, bootstrap: str) -> None:
        self._host = host
        self._bootstrap = bootstrap

    def _ask(self, op: str, **arguments: Any) -> Any:
        return self._host.ask(op, bootstrap=self._bootstrap, **arguments)

    def list_groups(self) -> dict[str, str | None]:
        return dict(self._ask("list_groups"))

    def describe_group(self, group: str) -> DescribedGroup:
        answer = self._ask("describe_group", group=group)
        members = [
            DescribedMember(
                member["member_id"],
                member["instance_id"],
                member["client_id"],
                member["host"],
                frozenset((topic, partition) for topic, partition in member["assignment"]),
            )
            for member in answer["members"]
        ]
        return DescribedGroup(answer["state"], answer["protocol"], tuple(members))

    def delete_group(self, group: str) -> None:
        self._ask("delete_group", group=group)

    def offsets(self, group: str) -> list[Committed]:
        return [Committed(*one) for one in self._ask("group_offsets", group=group)]

    def alter_offsets(self, group: str, offsets: Sequence[Committed]) -> None:
        wanted = [[one.topic, one.partition, one.offset, one.metadata] for one in offsets]
        self._ask("alter_group_offsets", group=group, offsets=wanted)

    def delete_offsets(self, group: str, partitions: Sequence[Partition]) -> None:
        self._ask("delete_group_offsets", group=group, partitions=partitions)

    def remove_instance(self, group: str, instance_id: str) -> None:
        self._ask("remove_instance", group=group, instance_id=instance_id)
