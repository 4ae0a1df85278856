"""`ottla features`: the levels of features that the whole cluster works at."""

from __future__ import annotations

from dataclasses import asdict

import click

from ottla.cli.broker_command import ask, broker_options, print_json, print_table


@click.group()
def features() -> None:
    """List features, and raise or lower the level of one."""


@features.command("list")
@broker_options
def list_features(bootstrap: str, as_json: bool) -> None:
    """Show each feature: the levels that the broker supports, and the level that the cluster works at."""
    found = ask(bootstrap, lambda admin: admin.describe_features())
    if as_json:
        print_json([asdict(feature) for feature in found.values()])
        return
    rows = [
        (each.name, f"{each.min_supported} to {each.max_supported}", each.level) for each in found.values()
    ]
    print_table(["feature", "supported", "level"], rows)


@features.command()
@click.argument("feature")
@click.argument("level", type=click.IntRange(0, 2**15 - 1))
@broker_options
def upgrade(feature: str, level: int, bootstrap: str, as_json: bool) -> None:
    """Raise the level of a feature; every broker must support it.

    \b
    ottla features upgrade transaction.version 2
    """
    _update(bootstrap, feature, level, downgrades=False, as_json=as_json)


@features.command()
@click.argument("feature")
@click.argument("level", type=click.IntRange(0, 2**15 - 1))
@broker_options
def downgrade(feature: str, level: int, bootstrap: str, as_json: bool) -> None:
    """Lower the level of a feature; at level 0 the cluster does without it.

    \b
    ottla features downgrade transaction.version 1
    """
    _update(bootstrap, feature, level, downgrades=True, as_json=as_json)


def _update(bootstrap: str, feature: str, level: int, *, downgrades: bool, as_json: bool) -> None:
    ask(bootstrap, lambda admin: admin.update_feature(feature, level, downgrades=downgrades))
    if as_json:
        print_json({"feature": feature, "level": level})
    else:
        click.echo(f"'{feature}' is at level {level}.")
