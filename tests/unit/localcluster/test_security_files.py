"""DIR/security: what is made, who may read it, and what is never overwritten."""

import stat
from pathlib import Path

import pytest

from ottla.config import BrokerConfig, ConfigError, parse_properties
from ottla.localcluster.security_files import SecurityFiles
from ottla.runtime.certificate_authority import hosts_in, name_in


@pytest.fixture
def files(tmp_path: Path) -> SecurityFiles:
    made = SecurityFiles(tmp_path / "cluster")
    made.make(["a.example.org"], 30)
    return made


def password_in(files: SecurityFiles) -> str:
    password = files.security.password
    assert password is not None
    return password


def contents(files: SecurityFiles) -> dict[str, str]:
    return {path.name: path.read_text() for path in files.directory.iterdir()}


def test_secrets_are_readable_for_their_owner_alone(files: SecurityFiles) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files.directory.iterdir()}
    secret = {name for name, mode in modes.items() if mode == 0o600}
    assert secret == {"authority.key", "broker.key", "admin.key", "users.properties", "client.properties"}
    assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700
    for name, text in contents(files).items():
        assert (password_in(files) in text) == (name in ("users.properties", "client.properties")), name
        assert ("PRIVATE KEY" in text) == name.endswith(".key"), name


def test_each_cluster_has_a_password_of_its_own(files: SecurityFiles, tmp_path: Path) -> None:
    other = SecurityFiles(tmp_path / "other")
    other.make()
    assert password_in(files) != password_in(other)
    assert len(password_in(files)) == 32


def test_a_broker_takes_the_settings_with_listeners_of_its_own(files: SecurityFiles) -> None:
    settings = parse_properties(files.broker_properties.read_text())
    listeners = "SASL_SSL://a.example.org:9092,SSL://a.example.org:9093"
    config = BrokerConfig.from_properties({**settings, "listeners": listeners})
    assert config.node.advertised_listener.protocol == "SSL"
    assert config.authorisation.super_user_names == {"User:admin", "User:broker"}
    assert config.tls.client_auth == "required"


def test_the_clients_settings_are_those_of_the_administrator(files: SecurityFiles) -> None:
    security = files.security
    assert (security.protocol, security.username) == ("SASL_SSL", "admin")
    assert parse_properties((files.directory / "users.properties").read_text()) == {
        "admin": security.password
    }


def test_nothing_is_overwritten(files: SecurityFiles) -> None:
    before = contents(files)
    with pytest.raises(ConfigError, match="exists, and is not overwritten"):
        files.make()
    with pytest.raises(ConfigError, match=r"broker\.pem exists"):
        files.issue("broker", hosts=["b.example.org"])
    assert contents(files) == before


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no name of a host"):
        SecurityFiles(tmp_path / "cluster").make(["bücher"])
    assert list(tmp_path.iterdir()) == []


def test_certificates_are_renewed_for_the_same_names_by_the_same_authority(files: SecurityFiles) -> None:
    files.issue("alice")
    before = contents(files)
    written = files.renew(["b.example.org"], 60)
    after = contents(files)
    assert {path.name for path in written} == {
        f"{stem}.{suffix}" for stem in ("admin", "alice", "broker") for suffix in ("pem", "key")
    }
    assert {name for name in after if after[name] != before[name]} == {path.name for path in written}
    assert name_in(after["alice.pem"]) == "alice"
    names = ("a.example.org", "localhost", "127.0.0.1", "::1")
    assert (hosts_in(before["broker.pem"]), hosts_in(after["broker.pem"])) == (
        names,
        (*names, "b.example.org"),
    )


def test_a_certificate_for_one_more_broker_is_one_of_the_brokers(files: SecurityFiles) -> None:
    certificate, key = files.issue("broker-4", hosts=["d.example.org"])
    assert name_in(certificate.read_text()) == "broker"
    assert hosts_in(certificate.read_text()) == ("d.example.org",)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match="cannot be the name of a file"):
        files.issue("../alice")


def test_the_client_is_led_to_other_brokers_and_keeps_the_rest(files: SecurityFiles) -> None:
    before = parse_properties(files.client_properties.read_text())
    files.lead_client_to("b.example.org:1,c.example.org:2")
    after = parse_properties(files.client_properties.read_text())
    assert after == {**before, "bootstrap.servers": "b.example.org:1,c.example.org:2"}
    assert stat.S_IMODE(files.client_properties.stat().st_mode) == 0o600


def test_without_files_one_sentence_says_how_to_make_them(tmp_path: Path) -> None:
    files = SecurityFiles(tmp_path)
    with pytest.raises(ConfigError, match="make it with ottla security init"):
        files.renew()
    with pytest.raises(ConfigError, match="make it with ottla security init"):
        files.issue("alice")
    with pytest.raises(ConfigError, match="No such file"):
        _ = files.security
