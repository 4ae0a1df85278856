"""kafkajs, franz-go and the Java client, unmodified: by every mechanism that they know, over every protocol.

One broker with three listeners: SSL asks for a certificate, SASL_SSL and SASL_PLAINTEXT for a login.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bench.apache.maven import CannotFetchError
from tests.clients.model import RefusedError
from tests.compat.foreign_clients import franz_driver, java_driver, kafkajs_driver
from tests.identity_provider import claims_of, key_file, signed
from tests.integration.in_process import BrokerThread, broker_thread
from tests.tls_authority import Authority, Issued

import ottla
import ottla.blocking
from ottla.localcluster.ports import HOST

pytestmark = pytest.mark.timeout(180)

USER, PASSWORD = "alice", "Sesam, oeffne=dich 1"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")
WAYS = [("SSL", ""), *((protocol, each) for protocol in LISTENERS[:2] for each in MECHANISMS)]
_MODULES = "org.apache.kafka.common.security"
_OAUTH = f"{_MODULES}.oauthbearer"


@dataclass(frozen=True, slots=True)
class Place:
    """A broker, and what its clients have: an authority's certificate, one of their own, a token in a file."""

    broker: BrokerThread
    authority: Authority
    own: Issued
    token_file: Path

    def address(self, protocol: str) -> str:
        listeners = self.broker.broker.listeners
        return f"{HOST}:{self.broker.call(lambda: listeners.port_of(protocol))}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority(directory / "certificates")
    users = directory / "users.properties"
    users.touch(mode=0o600)
    users.write_text(f"{USER}={PASSWORD}\nbroker=Broker-7\n".replace(", ", ",\\ "))
    token_file = directory / "token"
    token_file.write_text(signed(claims_of(USER)))
    settings = {
        "listeners": ",".join(f"{protocol}://{HOST}:0" for protocol in LISTENERS),
        "ssl.truststore.location": str(authority.ca_file),
        **authority.issue("broker").broker_settings(),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": key_file(directory),
        "ottla.sasl.users.file": str(users),
        "ottla.sasl.inter.broker.username": "broker",
        "ottla.sasl.max.failed.logins.per.minute": "0",
        "authorizer.class.name": "acl",
        # Who is somebody else than they should be may do nothing.
        "super.users": f"User:{USER}",
    }
    with broker_thread(directory / "data", settings) as broker:
        made = Place(broker, authority, authority.issue(USER), token_file)
        security = authority.security(made.own)
        with ottla.blocking.Admin(made.address("SSL"), security=security) as admin:
            ottla.succeeded(admin.create_topics([ottla.NewTopic("t")]))
        yield made


def of_security(place: Place, protocol: str, mechanism: str, password: str) -> dict[str, Any]:
    """A question's security, as the programs of kafkajs and franz-go read it."""
    own = place.own
    return {
        "security": {
            "protocol": protocol,
            "mechanism": mechanism,
            "username": USER,
            "password": password,
            "token": place.token_file.read_text(),
            "ca_file": str(place.authority.ca_file),
            **(
                {"certificate_file": str(own.certificate), "key_file": str(own.key)}
                if protocol == "SSL" and password == PASSWORD
                else {}
            ),
        }
    }


def of_java(place: Place, protocol: str, mechanism: str, password: str) -> dict[str, Any]:
    """The same as properties of the Java client."""
    properties = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        properties |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(place.authority.ca_file),
        }
    if protocol == "SSL" and password == PASSWORD:
        properties |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": place.own.certificate.read_text(),
            "ssl.keystore.key": place.own.key.read_text(),
        }
    if protocol.startswith("SASL"):
        properties |= {"sasl.mechanism": mechanism, **_login_of_java(place, mechanism, password)}
    return {"properties": properties}


def _login_of_java(place: Place, mechanism: str, password: str) -> dict[str, str]:
    if mechanism == "OAUTHBEARER":
        return {
            "sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": place.token_file.as_uri(),
        }
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {"sasl.jaas.config": f'{_MODULES}.{module} required username="{USER}" password="{password}";'}


Ask = Callable[[Place, str, str, str], int]


@pytest.fixture(scope="module", params=["kafkajs", "franz-go", "java"])
def log_in(request: pytest.FixtureRequest, place: Place) -> Iterator[Ask]:
    """Produce a record as a client of one family; answers its offset."""
    start = {"kafkajs": kafkajs_driver, "franz-go": franz_driver, "java": java_driver}[request.param]
    described = of_java if request.param == "java" else of_security
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        # Kafka's client reads no file that its process was not allowed to.
        allowed = f"org.apache.kafka.sasl.oauthbearer.allowed.urls={place.token_file.as_uri()}"
        files = f"org.apache.kafka.sasl.oauthbearer.allowed.files={place.token_file}"
        patch.setenv("JAVA_TOOL_OPTIONS", f"-D{allowed} -D{files}")
        try:
            driver = start()
        except CannotFetchError as reason:
            pytest.skip(f"NO {request.param}: {reason}")
        stack.callback(driver.close)

        def ask(place: Place, protocol: str, mechanism: str, password: str) -> int:
            described_security = described(place, protocol, mechanism, password)
            question = {"op": "log_in", "bootstrap": place.address(protocol), "topic": "t", "word": "hello"}
            offset = driver.ask(question | described_security)
            assert isinstance(offset, int)
            return offset

        yield ask


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS, ids=["-".join(way) for way in WAYS])
def test_a_client_gets_in_by_every_way_that_it_knows(
    place: Place, log_in: Ask, protocol: str, mechanism: str
) -> None:
    first = log_in(place, protocol, mechanism, PASSWORD)
    assert log_in(place, protocol, mechanism, PASSWORD) == first + 1


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SSL", ""), ("SASL_SSL", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-256"), ("SASL_SSL", "SCRAM-SHA-512")],
)
def test_a_client_without_a_certificate_or_with_a_wrong_password_is_told(
    place: Place, log_in: Ask, protocol: str, mechanism: str
) -> None:
    with pytest.raises((AssertionError, RefusedError)) as refused:
        log_in(place, protocol, mechanism, "Wrong-3")
    assert "no answer" not in str(refused.value)
