"""The arguments of `Security` from the properties that Kafka's clients take: the Java client's names and librdkafka's.

A property that begins with `security.`, `ssl.` or `sasl.` and is not known here is refused: a client that
ignored one would be less secure than its configuration says. Only PEM files are read.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.security.token_endpoint import TokenEndpoint

_FAMILIES: Final = ("security.", "ssl.", "sasl.", "enable.ssl.")
# Each property, and the argument of Security that it becomes.
_ARGUMENTS: Final = {
    "security.protocol": "protocol",
    "ssl.ca.location": "ca_file",
    "ssl.truststore.location": "ca_file",
    "ssl.certificate.location": "certificate_file",
    "ssl.keystore.location": "certificate_file",
    "ssl.key.location": "key_file",
    "ssl.key.password": "key_password",
    "ssl.ca.pem": "ca_pem",
    "ssl.truststore.certificates": "ca_pem",
    "ssl.certificate.pem": "certificate_pem",
    "ssl.keystore.certificate.chain": "certificate_pem",
    "ssl.key.pem": "key_pem",
    "ssl.keystore.key": "key_pem",
    "ssl.endpoint.identification.algorithm": "check_hostname",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
}
# Each property, or option of JAAS, that says where tokens come from, and the argument of TokenEndpoint.
_OF_TOKENS: Final = {
    "sasl.oauthbearer.token.endpoint.url": "url",
    "sasl.oauthbearer.client.credentials.client.id": "client_id",
    "sasl.oauthbearer.client.credentials.client.secret": "client_secret",
    "sasl.oauthbearer.client.id": "client_id",
    "sasl.oauthbearer.client.secret": "client_secret",
    "sasl.oauthbearer.scope": "scope",
}
_OF_JAAS_TOKENS: Final = {"clientId": "client_id", "clientSecret": "client_secret", "scope": "scope"}
# What Java's clients and librdkafka need to be told besides; there is one way here, so that other values are refused.
_TOLD_ANYWAY: Final = {
    "sasl.login.callback.handler.class": ("OAuthBearerLoginCallbackHandler",),
    "sasl.oauthbearer.jwt.retriever.class": (
        "DefaultJwtRetriever",
        "ClientCredentialsJwtRetriever",
        "FileJwtRetriever",
    ),
    "sasl.oauthbearer.method": ("oidc",),
}
_STORE_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")
_JAAS: Final = "sasl.jaas.config"
_JAAS_OPTION: Final = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|([^\s;"\']+))')
_JAAS_CONFIG: Final = re.compile(
    r"\s*[\w.]+\s+(?:required|requisite|sufficient|optional)\b(.*);\s*", re.DOTALL
)


def security_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """The security settings among a client's properties, by the names that `Security` gives them."""
    arguments: dict[str, Any] = {}
    of_tokens: dict[str, str] = {}
    for name, text in properties.items():
        if name == _JAAS:
            options = jaas_options(text)
            arguments |= {each: options[each] for each in ("username", "password") if each in options}
            if options.get("tokenauth", "").lower() == "true":
                arguments["is_delegation_token"] = True
            of_tokens |= {_OF_JAAS_TOKENS[each]: options[each] for each in _OF_JAAS_TOKENS if each in options}
        elif name in _OF_TOKENS:
            of_tokens[_OF_TOKENS[name]] = text
        elif name in _TOLD_ANYWAY:
            _check_told(name, text)
        elif name in _STORE_TYPES:
            _check_store_type(name, text)
        elif name in _ARGUMENTS:
            arguments[_ARGUMENTS[name]] = _value(name, text)
        elif name.startswith(_FAMILIES):
            raise ValueError(f"{name} is not supported: remove it, or see the security settings that are")
    return arguments | _token_argument(of_tokens)


def _token_argument(of_tokens: dict[str, str]) -> dict[str, TokenEndpoint]:
    if not of_tokens:
        return {}
    if "url" not in of_tokens:
        raise ValueError("sasl.oauthbearer.token.endpoint.url is missing: it says where tokens come from")
    return {"token": TokenEndpoint(**of_tokens)}


def _check_told(name: str, text: str) -> None:
    known = _TOLD_ANYWAY[name]
    if text.strip().rpartition(".")[2] not in known:
        raise ValueError(f"{name} must be {' or '.join(known)}: others are not supported")


def _value(name: str, text: str) -> object:
    if name == "security.protocol":
        return text.strip().upper()
    if name == "ssl.endpoint.identification.algorithm":
        if text.strip().lower() not in ("https", "none", ""):
            raise ValueError(f"{name} must be https, or empty for no check of host names, not {text!r}")
        return text.strip().lower() == "https"
    return text


def _check_store_type(name: str, text: str) -> None:
    if text.strip().upper() != "PEM":
        raise ValueError(f"{name} must be PEM, not {text!r}: export the store to a PEM file")


def jaas_options(text: str) -> dict[str, str]:
    """The options in a line of `sasl.jaas.config`."""
    parsed = _JAAS_CONFIG.fullmatch(text)
    if parsed is None:
        raise ValueError(
            'sasl.jaas.config must look like: org.apache...ScramLoginModule required username="..." password="...";'
        )
    return {
        name: re.sub(r"\\(.)", r"\1", double or single or bare)
        for name, double, single, bare in _JAAS_OPTION.findall(parsed[1])
    }
