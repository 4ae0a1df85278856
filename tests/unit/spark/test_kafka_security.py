"""Security options of the source, the sink and the audit: what becomes of them, and that none shows a secret."""

import pickle

import pytest

from ottla.security.settings import PLAINTEXT, Security
from ottla.security.token_endpoint import TokenEndpoint
from ottla.spark.kafka_security import security_of
from ottla.spark.option_values import OptionError
from ottla.spark.sink.options import sink_options
from ottla.spark.source.plan.options import source_options

SECRET = "Top-Secret-1"
JAAS = (
    f'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{SECRET}";'
)
OPTIONS = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": JAAS,
}
ALICE = Security(protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512", username="alice", password=SECRET)


def test_options_of_kafkas_clients_become_a_security() -> None:
    assert security_of({"subscribe": "t", **OPTIONS}) == ALICE
    assert security_of({"kafka.security.providers": "x", "kafka.client.id": "c"}) == PLAINTEXT


def test_source_and_sink_have_it_and_do_not_show_it() -> None:
    servers = {"kafka.bootstrap.servers": "localhost:9092"}
    source = source_options({**servers, "subscribe": "t", **OPTIONS})
    sink = sink_options({**servers, "topic": "t", **OPTIONS})
    assert source.security == sink.producer["security"] == ALICE
    assert SECRET not in repr(source) + str(source) + repr(sink)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kafka.security.protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        ({**OPTIONS, "kafka.sasl.jaas.config": SECRET}, "sasl.jaas.config must look like"),
        ({**OPTIONS, "kafka.sasl.login.class": "x"}, "sasl.login.class is not supported"),
        ({"kafka.sasl.password": SECRET}, "password has no use with protocol='PLAINTEXT'"),
        ({"kafka.ssl.truststore.type": "JKS"}, "must be PEM"),
    ],
)
def test_what_cannot_work_is_refused_without_a_secret(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said) as refused:
        security_of(options)
    assert SECRET not in str(refused.value)


OAUTH = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://id.test/token",
    "kafka.sasl.oauthbearer.client.credentials.client.id": "job",
    "kafka.sasl.oauthbearer.client.credentials.client.secret": SECRET,
    "kafka.sasl.oauthbearer.scope": "kafka",
}


def test_a_token_endpoint_travels_to_executors_and_does_not_show_its_secret() -> None:
    endpoint = TokenEndpoint("https://id.test/token", "job", SECRET, "kafka")
    security = Security(protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", token=endpoint)
    source = source_options({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", **OAUTH})
    assert source.security == security
    assert pickle.loads(pickle.dumps(source)).security == security
    assert SECRET not in repr(source) + str(source)
    without_id = {name: value for name, value in OAUTH.items() if not name.endswith("client.id")}
    with pytest.raises(OptionError, match="needs client_id and client_secret") as refused:
        security_of(without_id)
    assert SECRET not in str(refused.value)
