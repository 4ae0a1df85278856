"""What the doctor finds open: each finding with a sentence, and with what to type."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.tls_authority import Authority

from ottla.cli.inspect.doctor import doctor
from ottla.cli.inspect.security_check import (
    check_directory,
    check_rights,
    check_settings_file,
    is_public,
)
from ottla.client.admin.checks.findings import CannotLookError, Examination, Finding
from ottla.config.properties import render_properties
from ottla.localcluster.launch import claim
from ottla.localcluster.plan.cluster import ClusterOptions
from ottla.localcluster.security_files import SecurityFiles
from ottla.security.acl.rules import Acl, Operation, Pattern, Permission

PUBLIC = "PLAINTEXT://broker.example.org:9092"


def found(tmp_path: Path, **settings: str) -> list[Finding]:
    """The findings about a file with these settings; two underscores stand for a dot."""
    file = tmp_path / "broker.properties"
    file.write_text(render_properties({name.replace("__", "."): value for name, value in settings.items()}))
    return check_settings_file(file).findings


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


@pytest.mark.parametrize(
    ("host", "is_so"),
    [
        ("localhost", False),
        ("127.0.0.1", False),
        ("127.3.2.1", False),
        ("::1", False),
        ("", True),
        ("0.0.0.0", True),
        ("::", True),
        ("10.0.0.7", True),
        ("broker.example.org", True),
    ],
)
def test_a_public_host_is_one_that_other_machines_may_reach(host: str, is_so: bool) -> None:
    assert is_public(host) is is_so


def test_an_open_listener_on_a_public_address_without_rights_is_found(tmp_path: Path) -> None:
    finding = only(found(tmp_path, listeners=PUBLIC))
    assert (
        finding.problem
        == f"the listener {PUBLIC} is open: whoever reaches it may read, write and delete everything"
    )
    assert "ottla security init" in finding.advice
    assert found(tmp_path, listeners="PLAINTEXT://localhost:9092") == []
    assert found(tmp_path, listeners=PUBLIC, authorizer__class__name="acl") == []


def test_plain_without_tls_is_found(tmp_path: Path) -> None:
    listener = "SASL_PLAINTEXT://broker.example.org:9092"
    finding = only(found(tmp_path, listeners=listener, sasl__enabled__mechanisms="PLAIN,SCRAM-SHA-512"))
    assert "may log in by PLAIN, which sends the password readable" in finding.problem
    assert "sasl.enabled.mechanisms=SCRAM-SHA-512" in finding.advice
    assert found(tmp_path, listeners=listener, sasl__enabled__mechanisms="SCRAM-SHA-512") == []


def test_rights_that_settings_give_to_everybody_are_found(tmp_path: Path) -> None:
    rights = {"listeners": PUBLIC, "authorizer.class.name": "acl"}
    by_default = only(found(tmp_path, **rights, allow__everyone__if__no__acl__found="true"))
    assert "everybody may use a resource" in by_default.problem
    assert "allow.everyone.if.no.acl.found=false" in by_default.advice
    anonymous = only(found(tmp_path, **rights, super__users="User:admin;User:ANONYMOUS"))
    assert "User:ANONYMOUS, which is everybody who does not log in" in anonymous.problem


def test_wildcard_rights_are_found_with_the_command_that_removes_them() -> None:
    everything, cluster = Pattern.topic("*"), Pattern.cluster()
    fine = [
        Acl(everything, "User:alice", "*", Operation.READ),
        Acl(Pattern.topic("orders"), "User:*", "*", Operation.READ),
        Acl(everything, "User:*", "*", Operation.READ, Permission.DENY),
        Acl(everything, "User:*", "10.0.0.7", Operation.READ),
        Acl(cluster, "User:*", "*", Operation.DESCRIBE),
    ]
    report = Examination("cluster")
    check_rights(fine, "rights", report)
    assert report.findings == []
    open_to_all = [
        Acl(everything, "User:*", "*", Operation.ALL),
        Acl(cluster, "User:*", "*", Operation.ALTER_CONFIGS),
    ]
    check_rights(open_to_all, "rights", report)
    first, second = report.findings
    assert first.problem == "a right is for everybody: User:* may all topic *"
    assert first.advice.endswith("ottla acls remove --principal '*' --operation all --topic '*'")
    assert second.advice.endswith("--operation alter-configs --cluster")


@pytest.mark.parametrize(
    ("lifetime", "problem"),
    [(timedelta(days=20), "the certificate expires in 19 days, on "), (timedelta(days=-1), "expired on ")],
)
def test_certificates_that_expire_are_found_weeks_before(
    tmp_path: Path, lifetime: timedelta, problem: str
) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("broker", lifetime=lifetime)
    settings = {"listeners": "SSL://broker.example.org:9093", **issued.broker_settings()}
    finding = only(found(tmp_path, **settings))
    assert problem in finding.problem
    assert finding.place == str(issued.certificate)
    assert "ottla security renew" in finding.advice
    later = authority.issue("broker", lifetime=timedelta(days=40))
    assert found(tmp_path, **{**settings, **later.broker_settings()}) == []


def test_files_that_are_missing_or_no_certificates_are_found(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("broker")
    settings = {"listeners": "SSL://broker.example.org:9093", **issued.broker_settings()}
    issued.certificate.write_text("nothing")
    assert "no certificate in PEM form" in only(found(tmp_path, **settings)).problem
    issued.certificate.unlink()
    assert "cannot be read: no such file" in only(found(tmp_path, **settings)).problem


def test_keys_and_users_that_others_may_read_are_found(tmp_path: Path) -> None:
    issued, users = Authority(tmp_path).issue("broker"), tmp_path / "users"
    users.write_text("alice=hidden\n")
    settings = {
        "listeners": "SASL_SSL://broker.example.org:9093",
        "ottla.sasl.users.file": str(users),
        **issued.broker_settings(),
    }
    users.chmod(0o600)
    assert found(tmp_path, **settings) == []
    users.chmod(0o640)
    issued.key.chmod(0o604)
    findings = found(tmp_path, **settings)
    assert [(each.place, each.advice) for each in findings] == [
        (str(path), f"chmod 600 {path}") for path in (issued.key, users)
    ]
    assert "its mode is 604" in findings[0].problem
    assert "hidden" not in str(findings)


def test_settings_that_no_broker_starts_with_are_found(tmp_path: Path) -> None:
    finding = only(found(tmp_path, listeners="PLAINTEXT://0.0.0.0:9092"))
    assert finding.problem.startswith("a broker would not start: Clients cannot connect to 0.0.0.0")
    with pytest.raises(CannotLookError, match="no such file"):
        check_settings_file(tmp_path / "missing")


# ---- directories


def test_a_directory_that_security_init_made_is_well_until_it_is_opened_to_others(tmp_path: Path) -> None:
    files = SecurityFiles(tmp_path)
    assert check_directory(tmp_path) is None
    files.make(days=40)
    report = check_directory(tmp_path)
    assert report is not None
    assert report.is_healthy, report.findings
    files.client_properties.chmod(0o644)
    (files.directory / "broker.key").chmod(0o644)
    files.renew(days=7)
    (files.directory / "broker.key").chmod(0o644)
    report = check_directory(tmp_path)
    assert report is not None
    problems = {Path(each.place).name: each.problem for each in report.findings}
    assert problems.keys() == {"broker.key", "client.properties", "broker.pem"}
    assert "expires in 6 days" in problems["broker.pem"]


def test_the_settings_of_a_local_cluster_are_examined(tmp_path: Path) -> None:
    options = ClusterOptions(brokers=2, port=9092, host="10.0.0.7")
    with claim(tmp_path, options):
        report = check_directory(tmp_path)
    assert report is not None
    assert [each.place for each in report.findings] == ["broker 1", "broker 2"]
    assert "whoever reaches it may read" in report.findings[0].problem


def test_a_secured_local_cluster_has_no_findings(tmp_path: Path) -> None:
    with claim(tmp_path, ClusterOptions(port=0, is_secure=True)):
        report = check_directory(tmp_path)
    assert report is not None
    assert report.findings == []


def test_the_command_takes_a_file_of_settings(tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text(f"listeners={PUBLIC}\n")
    shown = CliRunner().invoke(doctor, ["--settings", str(file)], env={"OTTLA_BOOTSTRAP": ""})
    assert shown.exit_code == 1
    assert "is open: whoever reaches it" in shown.output
    assert "Found 0 errors and 1 warning." in shown.output
