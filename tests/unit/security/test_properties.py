import pytest

from ottla import Security


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
