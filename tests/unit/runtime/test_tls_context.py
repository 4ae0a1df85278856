"""The contexts of clients are made once, and again when their files change."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from tests.tls_authority import Authority

from ottla.config import BrokerConfig, ConfigError
from ottla.runtime.pem_files import read_identity
from ottla.runtime.tls_context import client_context, server_context
from ottla.security.settings import Security


def test_a_context_is_kept_until_its_files_change(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    security = authority.security(authority.issue("alice"))
    first = client_context(security)
    assert client_context(security) is first
    authority.issue("alice")
    assert client_context(security) is not first


def test_changed_files_that_cannot_be_used_leave_the_context_that_there_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("alice")
    security = authority.security(issued)
    first = client_context(security)
    issued.key.write_text("spoilt")
    assert client_context(security) is first
    assert client_context(security) is first
    (line,) = caplog.messages
    assert "changed certificates are not used" in line
    with pytest.raises(ConfigError, match="holds no private key"):
        client_context(
            Security(protocol="SSL", certificate_file=issued.certificate, key_file=str(issued.key))
        )


def test_a_client_checks_the_broker_and_speaks_no_old_tls(tmp_path: Path) -> None:
    context = client_context(Authority(tmp_path).security())
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    unchecked = client_context(Security(protocol="SSL", ca_file=tmp_path / "ca.pem", check_hostname=False))
    assert (unchecked.check_hostname, unchecked.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_neither_side_renegotiates_or_compresses(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("broker")
    security, identity = authority.security(issued), read_identity(authority.security(issued))
    assert identity is not None
    tls = BrokerConfig.from_properties(issued.broker_settings()).tls
    for context in (client_context(security), server_context(security, tls, identity)):
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.options & ssl.OP_NO_COMPRESSION
