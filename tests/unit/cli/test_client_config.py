"""`--config`, `--profile`, OTTLA_CONFIG and OTTLA_PROFILE: which of them says how a cluster is reached."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from ottla.cli.broker_command import bootstrap_option
from ottla.cli.client_config import security_given, use_security
from ottla.cli.main import ottla
from ottla.security.settings import PLAINTEXT


@click.command()
@bootstrap_option
@click.option("--local", is_flag=True)
def reach(bootstrap: str, local: bool) -> None:
    if local:
        use_security(PLAINTEXT)
    click.echo(f"{bootstrap} as {security_given().username}")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("OTTLA_CONFIG", "OTTLA_PROFILE", "OTTLA_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)
    for user in ("alice", "bob"):
        written(tmp_path / "config" / "ottla" / f"{user}.properties", user)
    written(tmp_path / "carol.properties", "carol")
    return tmp_path


def written(path: Path, user: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"bootstrap.servers={user}.example.org:9092\nsecurity.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism=PLAIN\nsasl.username={user}\nsasl.password=hidden\n"
    )


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(reach, arguments, env=environment)


def reached(*arguments: str, **environment: str) -> str:
    shown = run(*arguments, **environment)
    assert shown.exit_code == 0, shown.output
    return shown.stdout.strip()


def test_a_profile_is_a_file_with_a_name(home: Path) -> None:
    assert reached() == "localhost:9092 as None"
    assert reached("--profile", "alice") == "alice.example.org:9092 as alice"
    assert reached(OTTLA_PROFILE="bob") == "bob.example.org:9092 as bob"
    assert reached("--profile", "alice", "--bootstrap", "b:1") == "b:1 as alice"


def test_an_option_comes_before_the_environment_and_a_file_before_a_profile(home: Path) -> None:
    carol = str(home / "carol.properties")
    assert reached("--profile", "alice", OTTLA_CONFIG=carol).endswith("as alice")
    assert reached("--config", carol, OTTLA_PROFILE="alice").endswith("as carol")
    assert reached(OTTLA_CONFIG=carol, OTTLA_PROFILE="alice").endswith("as carol")
    both = run("--config", carol, "--profile", "alice")
    assert both.exit_code == 2
    assert "give a file or a profile, not both" in both.stderr


def test_a_profile_that_is_not_there_names_those_that_are(home: Path) -> None:
    shown = run("--profile", "dave")
    assert shown.exit_code == 2
    assert "dave.properties; profiles that exist: alice, bob" in shown.stderr


def test_a_local_cluster_is_reached_its_own_way_unless_an_option_says_another(home: Path) -> None:
    assert reached("--local", OTTLA_PROFILE="alice").endswith("as None")
    assert reached("--local", "--profile", "alice").endswith("as alice")


@pytest.mark.parametrize(
    "command",
    [
        "topics list",
        "configs describe",
        "features list",
        "groups list",
        "transactions list",
        "acls list",
        "users list",
        "quotas list",
        "produce",
        "consume",
        "audit",
        "bench produce",
        "doctor",
        "cluster status",
        "cluster drain",
        "cluster rebalance",
        "cluster recover",
        "cluster voters",
    ],
)
def test_every_command_that_reaches_a_broker_has_the_options(command: str) -> None:
    shown = CliRunner().invoke(ottla, [*command.split(), "--help"])
    assert shown.exit_code == 0
    for option in ("--command-config FILE", "--profile NAME"):
        assert option in shown.output, option


def test_where_config_sets_a_setting_a_file_is_told_its_own_option(home: Path) -> None:
    shown = CliRunner().invoke(ottla, ["topics", "create", "t", "--config", str(home / "carol.properties")])
    assert shown.exit_code == 2
    assert "A file of client properties is --command-config here." in shown.stderr
