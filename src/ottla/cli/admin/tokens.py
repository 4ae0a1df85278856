"""`ottla tokens`: delegation tokens, logins that users hand on for a time."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import click

from ottla.cli.broker_command import ask, broker_options, print_json, print_table
from ottla.client.admin.admin import Admin
from ottla.client.admin.checks.durations import duration
from ottla.client.requests.delegation_tokens import DelegationToken

_HOUR_MS = 3_600_000


@click.group()
def tokens() -> None:
    """Create, list, renew and expire delegation tokens: logins that users hand on, for a time.

    A client logs in with a token by SCRAM: the token's id is the user name, its HMAC the password, and
    tokenauth=true says that it is a token.
    """


@tokens.command()
@click.option("--owner", help="Whose login the token is.  [default: your own]")
@click.option(
    "--renewer", "renewers", multiple=True, help="A user who may renew the token, too. Several times."
)
@click.option("--max-hours", type=click.FloatRange(min=0, min_open=True), help="How long the token can live.")
@broker_options
def create(
    owner: str | None, renewers: tuple[str, ...], max_hours: float | None, bootstrap: str, as_json: bool
) -> None:
    """Create a token, and print it with its HMAC, which is a secret.

    \b
    ottla tokens create --renewer airflow --max-hours 48 --config alice.properties
    """
    longest = None if max_hours is None else max(1, int(max_hours * _HOUR_MS))
    made = ask(
        bootstrap, lambda admin: admin.create_token(owner=owner, renewers=renewers, max_lifetime_ms=longest)
    )
    if as_json:
        print_json({**_row(made), "hmac": made.password})
        return
    click.echo(f"Token id: {made.token_id}\nHMAC:     {made.password}")
    click.echo(f"A login as {made.owner}, until {_moment(made.expires_ms)}; {_renewable(made)}.")


@tokens.command("list")
@click.option("--owner", "owners", multiple=True, help="Only tokens that belong to this user. Several times.")
@broker_options
def list_tokens(owners: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """List the tokens that you may see, without their HMACs."""
    found = ask(bootstrap, lambda admin: admin.describe_tokens(owners or None))
    if as_json:
        print_json([_row(token) for token in found])
    elif not found:
        click.echo("There are no tokens that you may see.")
    else:
        now_ms = int(time.time() * 1000)
        print_table(
            ["token", "owner", "requester", "renewers", "expires in", "ends in"],
            [
                (
                    token.token_id,
                    token.owner,
                    token.requester,
                    ", ".join(token.renewers),
                    _left(token.expires_ms, now_ms),
                    _left(token.max_ms, now_ms),
                )
                for token in found
            ],
        )


@tokens.command()
@click.argument("token_id")
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="For how long.")
@broker_options
def renew(token_id: str, hours: float | None, bootstrap: str, as_json: bool) -> None:
    """Prolong a token, at most to its longest life."""
    period = None if hours is None else max(1, int(hours * _HOUR_MS))

    async def question(admin: Admin) -> int:
        return await admin.renew_token(await _found(admin, token_id), period_ms=period)

    _tell(token_id, ask(bootstrap, question), as_json=as_json)


@tokens.command()
@click.argument("token_id")
@click.option("--in-hours", type=click.FloatRange(min=0), help="When.  [default: at once]")
@broker_options
def expire(token_id: str, in_hours: float | None, bootstrap: str, as_json: bool) -> None:
    """End a token: nobody logs in with it any more. Connections that are open last as long as their logins."""
    after = None if in_hours is None else int(in_hours * _HOUR_MS)

    async def question(admin: Admin) -> int:
        return await admin.expire_token(await _found(admin, token_id), after_ms=after)

    _tell(token_id, ask(bootstrap, question), as_json=as_json)


async def _found(admin: Admin, token_id: str) -> DelegationToken:
    """The token with this id: its HMAC, a secret, is not for a command line."""
    for token in await admin.describe_tokens():
        if token.token_id == token_id:
            return token
    raise click.ClickException(
        f"There is no token '{token_id}' that you may see; see those there are with: ottla tokens list"
    )


def _row(token: DelegationToken) -> dict[str, object]:
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "max_ms": token.max_ms,
    }


def _tell(token_id: str, expires_ms: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"token_id": token_id, "expires_ms": expires_ms})
    else:
        click.echo(f"Token {token_id} expires at {_moment(expires_ms)}.")


def _renewable(token: DelegationToken) -> str:
    if token.max_ms <= token.expires_ms:
        return "it cannot be renewed"
    return f"it can be renewed until {_moment(token.max_ms)}"


def _moment(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")


def _left(timestamp_ms: int, now_ms: int) -> str:
    return duration(timestamp_ms - now_ms) if timestamp_ms > now_ms else "expired"
