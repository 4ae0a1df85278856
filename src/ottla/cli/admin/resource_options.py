"""The options that name resources of access control lists: topics, groups, transactional ids, users, the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import click

from ottla.security.acl.rules import OPERATIONS, Operation, Pattern, ResourceType

F = TypeVar("F", bound=Callable[..., Any])

_ANY_OF = "give --topic, --group, --transactional-id, --user or --cluster"
_OPERATION_NAMES = [
    "all",
    *dict.fromkeys(each.name.lower() for operations in OPERATIONS.values() for each in operations),
]


class Resources(NamedTuple):
    """The resources that a command names."""

    patterns: tuple[Pattern, ...]
    is_prefix: bool

    def required(self) -> tuple[Pattern, ...]:
        """The patterns; a mistake in the command if there are none."""
        if not self.patterns:
            raise click.UsageError(f"name a resource: {_ANY_OF}")
        return self.patterns

    def only(self) -> Pattern:
        """The one pattern; a mistake in the command if there are none or several."""
        if len(self.required()) > 1:
            raise click.UsageError("name one resource only")
        return self.patterns[0]


def resource_options(command: F) -> F:
    """`--topic`, `--group`, `--transactional-id`, `--user`, `--cluster`, `--prefix`: together the argument `named`."""

    @wraps(command)
    def collected(
        topics: tuple[str, ...],
        groups: tuple[str, ...],
        ids: tuple[str, ...],
        users: tuple[str, ...],
        of_cluster: bool,
        is_prefix: bool,
        **others: Any,
    ) -> Any:
        patterns = [
            *(Pattern.topic(name, is_prefix=is_prefix) for name in topics),
            *(Pattern.group(name, is_prefix=is_prefix) for name in groups),
            *(Pattern.transactional_id(name, is_prefix=is_prefix) for name in ids),
            *(Pattern.user(name, is_prefix=is_prefix) for name in users),
            *([Pattern.cluster()] if of_cluster else ()),
        ]
        if any(not pattern.name for pattern in patterns):
            raise click.UsageError("the name of a resource must not be empty; * stands for all")
        return command(named=Resources(tuple(patterns), is_prefix), **others)

    for option in _OPTIONS:
        option(collected)
    return cast(F, collected)


_OPTIONS = (
    click.option("--prefix", "is_prefix", is_flag=True, help="The names are beginnings of names."),
    click.option("--cluster", "of_cluster", is_flag=True, help="The cluster."),
    click.option(
        "--user",
        "users",
        multiple=True,
        metavar="NAME",
        help="A user, for whom tokens may be created or seen.",
    ),
    click.option("--transactional-id", "ids", multiple=True, metavar="ID", help="A transactional id."),
    click.option("--group", "groups", multiple=True, metavar="NAME", help="A consumer group; * for all."),
    click.option("--topic", "topics", multiple=True, metavar="NAME", help="A topic; * for all."),
)


def operation_of(context: click.Context, option: click.Parameter, name: str) -> Operation:
    """The operation of a name, as `read` or `describe-configs`."""
    known = name.lower().replace("-", "_")
    if known not in _OPERATION_NAMES:
        names = ", ".join(each.replace("_", "-") for each in _OPERATION_NAMES)
        raise click.BadParameter(f"{name!r} is no operation; there are {names}.", context, option)
    return Operation[known.upper()]


def operations_of(
    context: click.Context, option: click.Parameter, names: tuple[str, ...]
) -> tuple[Operation, ...]:
    """The operations of several names."""
    return tuple(operation_of(context, option, name) for name in names)


def check_operations(patterns: Iterable[Pattern], operations: Iterable[Operation]) -> None:
    """Refuse an operation that a kind of resource does not know: it would allow nothing."""
    for kind in dict.fromkeys(pattern.resource_type for pattern in patterns):
        for operation in operations:
            if operation is not Operation.ALL and operation not in OPERATIONS[kind]:
                known = ", ".join(each.name.lower() for each in OPERATIONS[kind])
                raise click.UsageError(
                    f"a {_name(kind)} knows no operation {operation.name.lower()}; it knows {known}"
                )


def _name(kind: ResourceType) -> str:
    return kind.name.lower().replace("_", " ")
