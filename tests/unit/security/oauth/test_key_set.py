"""Key sets: which keys are taken, and which one a token is checked with (OPS-5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.identity_provider import ec_key, key_set, rsa_key

from ottla.security.oauth.key_set import read_key_set
from ottla.security.sasl.exchange import AuthenticationError, UnknownKeyError


def test_a_key_is_found_by_its_id() -> None:
    keys = read_key_set(key_set(rsa_key(), ec_key()))
    assert keys.find("rsa-1", "RS512").public.thumbprint() == rsa_key().thumbprint()
    assert keys.find("ec-1", "ES256").public.thumbprint() == ec_key().thumbprint()


def test_a_key_that_is_not_in_the_set_may_be_in_a_newer_one() -> None:
    with pytest.raises(UnknownKeyError):
        read_key_set(key_set(rsa_key())).find("rsa-2", "RS256")


def test_a_token_without_a_key_id_is_checked_with_the_only_key_of_its_kind() -> None:
    keys = read_key_set(key_set(rsa_key(), ec_key()))
    assert keys.find(None, "ES256").key_id == "ec-1"
    with pytest.raises(AuthenticationError, match="which of several keys"):
        read_key_set(key_set(rsa_key(), rsa_key("rsa-2"))).find(None, "RS256")


@pytest.mark.parametrize(
    ("key_id", "algorithm"), [("rsa-1", "ES256"), ("ec-1", "RS256"), ("ec-1", "ES384"), ("ec-1", "HS256")]
)
def test_a_key_is_used_with_its_own_algorithms_only(key_id: str, algorithm: str) -> None:
    with pytest.raises(AuthenticationError, match="not for"):
        read_key_set(key_set(rsa_key(), ec_key())).find(key_id, algorithm)


def test_the_algorithm_that_a_key_names_is_the_only_one() -> None:
    keys = read_key_set(key_set(rsa_key(), alg="RS384"))
    assert keys.find("rsa-1", "RS384").algorithms == ("RS384",)
    with pytest.raises(AuthenticationError):
        keys.find("rsa-1", "RS256")


def test_the_private_part_of_a_key_is_not_taken_over() -> None:
    keys = read_key_set(json.dumps({"keys": [rsa_key().as_dict(private=True)]}).encode())
    assert not keys.find("rsa-1", "RS256").public.is_private


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "kid": "x"},
        {**rsa_key().as_dict(private=False), "use": "enc"},
        {**rsa_key().as_dict(private=False), "alg": "PS256"},
        {**rsa_key().as_dict(private=False), "kid": 7},
        {**rsa_key().as_dict(private=False), "n": "9" * 170},  # 1020 bits
        {**rsa_key().as_dict(private=False), "n": "9" * 4000},
        {"kty": "RSA", "n": "AQAB"},
        {"kty": "RSA", "n": 5, "e": []},
        {**ec_key().as_dict(private=False), "y": "AAAA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": ["P-256"]},
        "text",
        None,
    ],
)
def test_unusable_keys_are_left_out(entry: Any) -> None:
    with pytest.raises(ValueError, match="no RSA or EC key"):
        read_key_set(json.dumps({"keys": [entry]}).encode())
    assert len(read_key_set(json.dumps({"keys": [entry, ec_key().as_dict(private=False)]}).encode())) == 1


@pytest.mark.parametrize(
    "data", [b"", b"<html>", b"\xff", b"[]", b"{}", b'{"keys": {}}', b'{"keys":[]}', b'{"a":' * 50_000]
)
def test_what_is_no_key_set_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_key_set(data)
