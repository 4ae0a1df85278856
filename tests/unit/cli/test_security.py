"""`ottla security`: what it says, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.main import ottla
from ottla.config import parse_properties
from ottla.localcluster.security_files import SecurityFiles


def told(*arguments: str, status: int = 0) -> str:
    shown = CliRunner().invoke(ottla, ["security", *arguments])
    assert shown.exit_code == status, shown.output
    return shown.output


def test_init_names_every_file_and_the_next_commands_and_no_secret(tmp_path: Path) -> None:
    said = told("init", "--data", str(tmp_path))
    files = SecurityFiles(tmp_path)
    for path in files.directory.iterdir():
        assert path.name in said
    assert f"ottla cluster up --secure --data {tmp_path}" in said
    assert f"ottla topics list --config {files.client_properties}" in said
    assert str(files.security.password) not in said
    assert "exists, and is not overwritten" in told("init", "--data", str(tmp_path), status=1)


def test_hosts_of_other_machines_lead_the_client_there(tmp_path: Path) -> None:
    said = told("init", "--data", str(tmp_path), "--host", "a.example.org", "--host", "10.0.0.7")
    files = SecurityFiles(tmp_path)
    assert f"ottla serve --config {files.broker_properties}" in said
    client = parse_properties(files.client_properties.read_text())
    assert client["bootstrap.servers"] == "a.example.org:9092"
    assert {"a.example.org", "10.0.0.7"} < set(files.hosts())


def test_certificates_are_issued_and_renewed(tmp_path: Path) -> None:
    told("init", "--data", str(tmp_path))
    said = told("issue", "alice", "--data", str(tmp_path))
    assert f"Wrote {tmp_path}/security/alice.pem" in said
    assert "broker.key" in told("renew", "--data", str(tmp_path), "--days", "10")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("init", "--days", "0"), "0 is not in the range"),
        (("init", "--host", "a,b"), "'a,b' is no host"),
        (("init", "--host", ""), "'' is no host"),
    ],
)
def test_a_mistake_in_the_command_is_named(arguments: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    assert sentence in told(*arguments, "--data", str(tmp_path / "new"), status=2)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "not a directory" in told("init", "--data", str(tmp_path / "file" / "x"), status=1)
    assert "make it with ottla security init" in told("renew", "--data", str(tmp_path), status=1)
