"""`ottla acls`: who may do what."""

from __future__ import annotations

import click

from ottla.cli.admin.resource_options import (
    Resources,
    check_operations,
    operation_of,
    operations_of,
    resource_options,
)
from ottla.cli.broker_command import ask, broker_options, print_json, print_table, raise_errors
from ottla.client.admin.admin import Admin
from ottla.client.requests.configs import ConfigResource, ResourceType
from ottla.client.requests.outcomes import succeeded
from ottla.security.acl.authoriser import Action, Authoriser, Verdict
from ottla.security.acl.rules import (
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    Pattern,
    PatternType,
    Permission,
)

_COLUMNS = ("principal", "permission", "operation", "resource", "name", "pattern", "host")


@click.group()
def acls() -> None:
    """List, add and remove access control lists, and ask what they allow.

    A broker checks them where authorizer.class.name is set.
    """


def _principal(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """A name without a kind is a user's."""
    if text is None:
        return None
    if not text or text.endswith(":"):
        raise click.BadParameter("a principal is User:name", context, option)
    return text if ":" in text else f"User:{text}"


@acls.command("list")
@click.option("--principal", callback=_principal, metavar="NAME", help="Only those of a principal.")
@resource_options
@broker_options
def list_acls(
    principal: str | None,
    named: Resources,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Show all access control lists, or those about a principal or resources.

    For a resource, those for all names and for prefixes of its name are shown, too.

    \b
    ottla acls list --topic orders
    """
    kind = PatternType.PREFIXED if named.is_prefix else PatternType.MATCH

    async def question(admin: Admin) -> list[Acl]:
        found: dict[Acl, None] = {}
        for wanted in _filters(named, kind, principal):
            found |= dict.fromkeys(await admin.describe_acls(wanted))
        return list(found)

    _show(ask(bootstrap, question), as_json=as_json)


@acls.command()
@click.argument("principal", callback=_principal, metavar="PRINCIPAL")
@click.argument("operations", nargs=-1, required=True, callback=operations_of, metavar="OPERATION...")
@click.option("--deny", is_flag=True, help="Deny instead of allowing: this decides, whatever others allow.")
@click.option("--host", default=WILDCARD, show_default=True, help="The address that the client comes from.")
@resource_options
@broker_options
def add(
    principal: str,
    operations: tuple[Operation, ...],
    deny: bool,
    host: str,
    named: Resources,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Allow a principal operations on resources, or deny them.

    \b
    ottla acls add alice read --topic orders --group readers
    ottla acls add alice write create --topic shop- --prefix
    """
    patterns = named.required()
    check_operations(patterns, operations)
    permission = Permission.DENY if deny else Permission.ALLOW
    wanted = [
        Acl(pattern, principal, host, operation, permission)
        for pattern in patterns
        for operation in operations
    ]
    outcomes = ask(bootstrap, lambda admin: admin.create_acls(wanted))
    added = [acl for acl, error in outcomes.items() if error is None]
    if as_json:
        print_json({"added": [*map(_as_json, added)]})
    else:
        for acl in added:
            click.echo(f"Added: {acl}.")
    raise_errors({str(acl): error for acl, error in outcomes.items()}, "add")


@acls.command()
@click.option("--principal", callback=_principal, metavar="NAME", help="Those of a principal.")
@click.option(
    "--operation",
    "operations",
    multiple=True,
    callback=operations_of,
    help="Those of an operation; repeatable.",
)
@click.option("--deny/--allow", "deny", default=None, help="Only those that deny, or that allow.")
@click.option("--host", default=None, help="Those of one address.")
@click.option("--all", "everything", is_flag=True, help="All, whatever they are about.")
@resource_options
@broker_options
def remove(
    principal: str | None,
    operations: tuple[Operation, ...],
    deny: bool | None,
    host: str | None,
    everything: bool,
    named: Resources,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Remove the access control lists that fit all options given, and print them.

    Names are meant literally: `--topic orders` leaves those about all topics and about prefixes alone.

    \b
    ottla acls remove --principal alice --operation read --topic orders
    """
    if not (principal or operations or host or named.patterns or everything):
        raise click.UsageError("say which: give --principal, --operation, --host, a resource, or --all")
    permission = Permission.ANY if deny is None else Permission.DENY if deny else Permission.ALLOW
    kind = PatternType.PREFIXED if named.is_prefix else PatternType.LITERAL
    wanted = [
        each._replace(host=host, operation=operation, permission=permission)
        for each in _filters(named, kind, principal)
        for operation in operations or (Operation.ANY,)
    ]

    async def question(admin: Admin) -> list[Acl]:
        deleted = succeeded(await admin.delete_acls(wanted))
        return list(dict.fromkeys(acl for found in deleted.values() for acl in found))

    removed = ask(bootstrap, question)
    if as_json:
        print_json({"removed": [*map(_as_json, removed)]})
        return
    for acl in removed:
        click.echo(f"Removed: {acl}.")
    if not removed:
        click.echo("No access control list fits; see them with: ottla acls list")


@acls.command()
@click.argument("principal", callback=_principal, metavar="PRINCIPAL")
@click.argument("operation", callback=operation_of, metavar="OPERATION")
@click.option("--host", default="", help="The address that the client comes from.  [default: any other]")
@resource_options
@broker_options
def check(
    principal: str,
    operation: Operation,
    host: str,
    named: Resources,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Tell whether a principal may do something, and which rule decides. Exits with 1 if not.

    \b
    ottla acls check alice write --topic orders
    """
    if named.is_prefix:
        raise click.UsageError("--prefix: ask about one resource by its name")
    pattern = named.only()
    check_operations([pattern], [operation])
    action = Action(principal, host, operation, pattern.resource_type, pattern.name)
    verdict = ask(bootstrap, lambda admin: _verdict(admin, action))
    if as_json:
        print_json({"allowed": verdict.is_allowed, "reason": verdict.reason})
    else:
        may = "may" if verdict.is_allowed else "must not"
        click.echo(f"{principal} {may} {operation.name.lower()} {pattern}: {verdict.reason}.")
    if not verdict.is_allowed:
        raise SystemExit(1)


async def _verdict(admin: Admin, action: Action) -> Verdict:
    """The decision that a broker makes, from the ACLs and from the settings of one broker."""
    about = AclFilter(action.resource_type, action.name, PatternType.MATCH)
    found = await admin.describe_acls(about)
    broker = (await admin.describe_cluster()).brokers[0]
    resource = ConfigResource(ResourceType.BROKER, str(broker.node_id))
    settings = succeeded(await admin.describe_configs([resource]))[resource]
    values = {name: entry.value or "" for name, entry in settings.items()}
    super_users = [each.strip() for each in values.get("super.users", "").split(";") if each.strip()]
    allow_without_acl = values.get("allow.everyone.if.no.acl.found") == "true"
    return Authoriser(found, super_users, allow_without_acl=allow_without_acl).verdict(action)


def _filters(named: Resources, kind: PatternType, principal: str | None) -> list[AclFilter]:
    """A filter for each resource; one for all resources if none is named."""
    everywhere = AclFilter(principal=principal)
    return [_filter(everywhere, pattern, kind) for pattern in named.patterns] or [everywhere]


def _filter(wanted: AclFilter, pattern: Pattern, kind: PatternType) -> AclFilter:
    return wanted._replace(resource_type=pattern.resource_type, name=pattern.name, pattern_type=kind)


def _show(found: list[Acl], *, as_json: bool) -> None:
    rows = [_as_json(acl) for acl in sorted(found, key=lambda acl: (acl.principal, acl))]
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("There is no such access control list.")
    else:
        print_table(_COLUMNS, [row.values() for row in rows])


def _as_json(acl: Acl) -> dict[str, str]:
    kind, name, pattern_type = acl.pattern
    return {
        "principal": acl.principal,
        "permission": acl.permission.name.lower(),
        "operation": acl.operation.name.lower(),
        "resource": kind.name.lower(),
        "name": name,
        "pattern": pattern_type.name.lower(),
        "host": acl.host,
    }
