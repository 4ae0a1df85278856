"""The users file, and as whom brokers log in to each other (OPS-5)."""

from pathlib import Path

import pytest

from ottla.config import BrokerConfig, ConfigError
from ottla.errors import ErrorCode, KafkaError
from ottla.security.settings import PLAINTEXT
from ottla.server.quorum.peer_login import read_users, security_between_brokers

SECRET = "Top-Secret-1"


def users_file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "users.properties"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return file


def config(file: Path | None = None, **given: str) -> BrokerConfig:
    properties = {
        "listeners": "SASL_PLAINTEXT://localhost:9092",
        **{name.replace("_", "."): value for name, value in given.items()},
    }
    if file is not None:
        properties["ottla.sasl.users.file"] = str(file)
    return BrokerConfig.from_properties(properties)


def test_users_stand_in_a_properties_file(tmp_path: Path) -> None:
    file = users_file(tmp_path, f"# users\nalice={SECRET}\nb\\=b : x\\ y\n")
    assert read_users(config(file).sasl) == {"alice": SECRET, "b=b": "x y"}
    assert read_users(config().sasl) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [(f"={SECRET}\n", "each line must be user=password"), ("alice\n", "'alice' has no password")],
)
def test_a_file_that_cannot_be_used_is_refused_without_its_content(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(KafkaError, match=said) as refused:
        read_users(config(users_file(tmp_path, text)).sasl)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert SECRET not in str(refused.value)
    with pytest.raises(KafkaError, match="No such file"):
        read_users(config(tmp_path / "missing").sasl)


def test_brokers_log_in_as_the_user_of_the_settings(tmp_path: Path) -> None:
    file = users_file(tmp_path, f"broker={SECRET}\n")
    security = security_between_brokers(config(file, ottla_sasl_inter_broker_username="broker"))
    assert (security.protocol, security.sasl_mechanism) == ("SASL_PLAINTEXT", "SCRAM-SHA-512")
    assert (security.username, security.password) == ("broker", SECRET)
    assert SECRET not in repr(security)
    with pytest.raises(KafkaError, match="'other', who is not in it"):
        security_between_brokers(config(file, ottla_sasl_inter_broker_username="other"))


def test_brokers_of_an_open_listener_do_not_log_in() -> None:
    assert security_between_brokers(BrokerConfig()) is PLAINTEXT
    assert security_between_brokers(config()) is PLAINTEXT


VOTERS = "1@localhost:9092,2@localhost:9093"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sasl_enabled_mechanisms": ""}, "sasl.enabled.mechanisms is empty"),
        ({"controller_quorum_voters": VOTERS}, "set ottla.sasl.users.file"),
        (
            {"controller_quorum_voters": VOTERS, "sasl_enabled_mechanisms": "PLAIN"},
            "SCRAM-SHA-512, which is not in sasl.enabled.mechanisms",
        ),
        (
            {"sasl_jaas_config": f'x required user_a="{SECRET}";'},
            "passwords do not belong among the settings",
        ),
        ({"listener_name_sasl_plain_sasl_jaas_config": SECRET}, "name the file in ottla.sasl.users.file"),
    ],
)
def test_settings_by_which_nobody_could_log_in_are_refused_without_a_secret(
    given: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        config(None, **given)
    assert SECRET not in str(refused.value)
