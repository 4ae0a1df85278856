import pickle
from pathlib import Path
from typing import Any

import pytest

from ottla import Security

SCRAM: dict[str, Any] = {"sasl_mechanism": "SCRAM-SHA-512", "username": "alice", "password": "hunter2"}


def test_without_settings_a_client_speaks_plain_text() -> None:
    security = Security()
    assert (security.protocol, security.uses_tls, security.uses_sasl) == ("PLAINTEXT", False, False)


@pytest.mark.parametrize(
    ("security", "tls", "sasl"),
    [
        (Security(protocol="SSL", ca_file=Path("ca.pem")), True, False),
        (Security(protocol="SASL_PLAINTEXT", **SCRAM), False, True),
        (Security(protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", token=lambda: "t"), True, True),
    ],
)
def test_a_protocol_says_whether_it_encrypts_and_whether_it_logs_in(
    security: Security, tls: bool, sasl: bool
) -> None:
    assert (security.uses_tls, security.uses_sasl) == (tls, sasl)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"protocol": "TLS"}, "protocol must be one of PLAINTEXT, SSL"),
        ({"ca_file": "ca.pem"}, "ca_file has no use with protocol='PLAINTEXT'"),
        ({"protocol": "SSL", "key_file": "key.pem"}, "key_file needs certificate_file"),
        ({"protocol": "SSL", "key_password": "x"}, "key_password needs certificate_file"),
        ({"protocol": "SSL", "key_pem": "k"}, "key_pem needs certificate_file"),
        ({"protocol": "SSL", "ca_file": "a", "ca_pem": "b"}, "ca_file and ca_pem cannot both be given"),
        ({"ca_pem": "b"}, "ca_pem has no use with protocol='PLAINTEXT'"),
        ({"protocol": "SSL", "username": "alice"}, "username has no use with protocol='SSL'"),
        ({"protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        ({**SCRAM, "protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "sasl_mechanism must be one of"),
        ({"protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "username": "alice"}, "needs password"),
        ({"protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "needs token"),
        ({**SCRAM, "protocol": "SASL_SSL", "token": "t"}, "token has no use with sasl_mechanism"),
    ],
)
def test_a_combination_that_cannot_work_is_refused_in_a_sentence(
    given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        Security(**given)


def test_no_secret_is_shown() -> None:
    shown = repr(Security(protocol="SASL_SSL", certificate_file="c.pem", key_password="opens", **SCRAM))
    assert "alice" in shown
    assert "hunter2" not in shown
    assert "opens" not in shown
    assert "inside" not in repr(Security(protocol="SSL", certificate_pem="inside", key_pem="inside"))


def test_settings_travel_to_other_processes() -> None:
    security = Security(protocol="SASL_SSL", ca_file="ca.pem", **SCRAM)
    assert pickle.loads(pickle.dumps(security)) == security
