import pytest

from ottla import Security, TokenEndpoint


def test_the_java_clients_properties_are_understood() -> None:
    properties = {
        "bootstrap.servers": "broker:9093",
        "group.id": "billing",
        "security.protocol": "sasl_ssl",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/etc/ca.pem",
        "ssl.keystore.type": "pem",
        "ssl.keystore.location": "/etc/client.pem",
        "ssl.key.password": "opens",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required\n"
        '  username="alice" password="a \\"b\\" c;d";',
    }
    assert Security.from_properties(properties) == Security(
        protocol="SASL_SSL",
        ca_file="/etc/ca.pem",
        certificate_file="/etc/client.pem",
        key_password="opens",
        sasl_mechanism="SCRAM-SHA-256",
        username="alice",
        password='a "b" c;d',
    )


def test_librdkafkas_properties_are_understood() -> None:
    properties = {
        "security.protocol": "SSL",
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "client.pem",
        "ssl.key.location": "client.key",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert Security.from_properties(properties) == Security(
        protocol="SSL",
        ca_file="ca.pem",
        certificate_file="client.pem",
        key_file="client.key",
        check_hostname=False,
    )
    plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN"}
    assert Security.from_properties({**plain, "sasl.username": "a", "sasl.password": "b"}) == Security(
        protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", username="a", password="b"
    )


def test_properties_without_security_are_plain_text() -> None:
    assert Security.from_properties({"client.id": "shop"}) == Security()


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"ssl.cipher.suites": "x"}, "ssl.cipher.suites is not supported"),
        ({"enable.ssl.certificate.verification": "false"}, "is not supported"),
        ({"ssl.truststore.type": "JKS"}, "must be PEM"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "must be https"),
        ({"security.protocol": "TLS"}, "protocol must be one of"),
        ({"sasl.jaas.config": "username=alice"}, "sasl.jaas.config must look like"),
    ],
)
def test_a_property_without_effect_is_refused_in_a_sentence(
    properties: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        Security.from_properties(properties)


OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
URL = "sasl.oauthbearer.token.endpoint.url"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.mark.parametrize(
    "properties",
    [
        {
            "sasl.oauthbearer.client.credentials.client.id": "shop",
            "sasl.oauthbearer.client.credentials.client.secret": "Sesame",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
            "OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.common.security.oauthbearer."
            "ClientCredentialsJwtRetriever",
            "sasl.jaas.config": f"{MODULE} ;",
        },
        {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "shop",
            "sasl.oauthbearer.client.secret": "Sesame",
            "sasl.oauthbearer.scope": "kafka",
        },
        {"sasl.jaas.config": f'{MODULE} clientId="shop" clientSecret="Sesame" scope="kafka";'},
    ],
)
def test_a_token_endpoint_is_understood_in_every_spelling(properties: dict[str, str]) -> None:
    security = Security.from_properties({**OAUTH, URL: "https://id.test/token", **properties})
    endpoint = TokenEndpoint("https://id.test/token", "shop", "Sesame", "kafka")
    assert security == Security(protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", token=endpoint)
    assert "Sesame" not in repr(security) + repr(endpoint)


def test_a_token_in_a_file_is_understood() -> None:
    assert Security.from_properties({**OAUTH, URL: "file:///run/token"}).token == TokenEndpoint(
        "file:///run/token"
    )


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({}, "needs token"),
        ({URL: "https://id.test/token"}, "needs client_id and client_secret"),
        ({URL: "ftp://id.test/token"}, "must begin with https"),
        ({URL: "file:///t", "sasl.oauthbearer.scope": "s"}, "have no use with a file"),
        ({"sasl.oauthbearer.client.id": "x"}, f"{URL} is missing"),
        ({URL: "file:///t", "sasl.oauthbearer.method": "default"}, "method must be oidc"),
        ({URL: "file:///t", "sasl.login.callback.handler.class": "My"}, "others are not supported"),
        ({URL: "file:///t", "sasl.oauthbearer.assertion.file": "x"}, "is not supported"),
        ({URL: "file:///t", "sasl.username": "a"}, "username has no use"),
    ],
)
def test_a_token_endpoint_that_cannot_be_used_is_refused(properties: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Security.from_properties({**OAUTH, **properties})
