from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.broker_settings import apply_flags, read_settings_file, settings_from_environment
from ottla.cli.name_values import parse_assignments
from ottla.config import BrokerConfig, ConfigError


def test_a_file_holds_one_setting_per_line(tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text("# mine\nnum.partitions=3\nlog.dirs=/data\n")
    assert read_settings_file(str(file)) == {"num.partitions": "3", "log.dirs": "/data"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: no such file or directory."),
        (b"\xff\xfe", "cannot be read: it is not text in UTF-8."),
        (b"=3\n", "cannot be used: A line begins with '=', so that it has no setting's name"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_name(
    tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    file = tmp_path / "broker.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_settings_file(str(file))
    assert str(caught.value).startswith(f"The settings file {file} ")
    assert sentence in str(caught.value)


def test_the_environment_speaks_in_capitals_and_may_hold_the_clients_address() -> None:
    environment = {"OTTLA_LOG_SEGMENT_BYTES": "1000", "OTTLA_BOOTSTRAP": "h:1", "PATH": "/bin"}
    assert settings_from_environment(environment) == {"log.segment.bytes": "1000"}


def test_a_misspelt_variable_is_refused() -> None:
    with pytest.raises(ConfigError, match="OTTLA_LOG_SEGMENT_BYTE names no setting; did you mean"):
        settings_from_environment({"OTTLA_LOG_SEGMENT_BYTE": "1000"})


def test_assignments_keep_what_stands_behind_the_first_equals_sign() -> None:
    assert parse_assignments(["a=b=c", " d = e ", "f=", "a=2"], "--set") == {"a": "2", "d": "e", "f": ""}


@pytest.mark.parametrize("pair", ["a", "=b", ""])
def test_an_assignment_without_a_name_or_an_equals_sign_is_refused(pair: str) -> None:
    with pytest.raises(ConfigError, match=r"--set cannot be .*: write --set NAME=VALUE"):
        parse_assignments([pair], "--set")


@pytest.mark.parametrize(
    ("settings", "host", "port", "listeners"),
    [
        ({}, None, "9093", "PLAINTEXT://localhost:9093"),
        ({}, "127.0.0.1", None, "PLAINTEXT://127.0.0.1:9092"),
        ({}, "::1", "0", "PLAINTEXT://[::1]:0"),
        ({}, "[::1]", None, "PLAINTEXT://[::1]:9092"),
        ({"listeners": "PLAINTEXT://h:5"}, None, "6", "PLAINTEXT://h:6"),
        ({"listeners": "PLAINTEXT://[::1]:5"}, None, "6", "PLAINTEXT://[::1]:6"),
        ({"listeners": "PLAINTEXT://0.0.0.0:5"}, "h", None, "PLAINTEXT://h:5"),
    ],
)
def test_host_and_port_replace_their_part_of_the_listener(
    settings: dict[str, str], host: str | None, port: str | None, listeners: str
) -> None:
    assert apply_flags(settings, host=host, port=port)["listeners"] == listeners


@pytest.mark.parametrize(
    ("flag", "listener"),
    [
        ("9644", "localhost:9644"),
        ("0.0.0.0:9644", "0.0.0.0:9644"),
        (":0", ":0"),
        ("[::1]:9644", "[::1]:9644"),
    ],
)
def test_the_http_flag_has_a_port_or_an_address(flag: str, listener: str) -> None:
    config = BrokerConfig.from_properties(apply_flags({}, http=flag))
    assert config.monitoring.http_listener == listener
    assert config.monitoring.http_address is not None


@pytest.mark.parametrize("flag", ["here", "here:", "here:x", "a:b:1", "here:65536"])
def test_an_http_flag_that_is_no_address_is_refused(flag: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot be"):
        BrokerConfig.from_properties(apply_flags({}, http=flag))


def test_flags_replace_what_the_other_sources_say() -> None:
    settings = {"log.dirs": "/a", "log.dir": "/b", "node.id": "1", "num.partitions": "3"}
    config = BrokerConfig.from_properties(apply_flags(settings, data="/c", node_id="7"))
    assert (config.logs.directory, config.node.id, config.topics.num_partitions) == ("/c", 7, 3)


def test_without_flags_nothing_is_set() -> None:
    assert apply_flags({}) == {}


@pytest.mark.parametrize("port", ["abc", "-1", "65536", "", "9092x", "٣"])
def test_a_port_that_is_no_port_is_refused(port: str) -> None:
    with pytest.raises(ConfigError, match=r"--port cannot be .*: it must be a number from 0"):
        apply_flags({}, port=port)
