import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.server.connected import frame

from ottla.config import AuthorisationConfig, BrokerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.apis import DECLARED_APIS, INTERNAL_APIS, QUORUM_APIS, ApiKey
from ottla.protocol.codec import DecodeError
from ottla.protocol.frame import read_response
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.produce import ProduceRequest
from ottla.security.acl.rules import Acl, Operation, Pattern, Permission, ResourceType
from ottla.server.answers.deferred import Deferred
from ottla.server.apis.table import registered
from ottla.server.gate.basis import basis_of
from ottla.server.gate.dispatch import Gate
from ottla.server.gate.handlers import ApiFamily, Gatherer, RequestContext
from ottla.server.gate.request_counts import RequestCounts
from ottla.server.gate.rights import Rights
from ottla.server.gate.session import UNKNOWN_SOFTWARE, Session

SERVICES: Any = SimpleNamespace(
    partitions=SimpleNamespace(version=7),
    flusher=None,
    rights=None,
    quotas=SimpleNamespace(are_set=False, limits_time=False),
    config=BrokerConfig(),
    requests=RequestCounts(),
)


def session() -> Session:
    return Session("PLAINTEXT", "127.0.0.1", 1)


def metadata_frame(client_id: str | None = "shop", version: int = 9) -> bytes:
    """Without its size, as the gate gets frames."""
    return frame(ApiKey.METADATA, version, MetadataRequest(), 5, client_id)[4:]


def gate_with(handler: Callable[[RequestContext, MetadataRequest], Any]) -> Gate:
    api = ApiFamily()
    api.handles(MetadataRequest)(handler)
    return Gate(SERVICES, api.registered.get)


def test_a_handler_gets_the_services_the_header_and_the_session_that_asks() -> None:
    asked: list[RequestContext] = []
    asking = session()

    def handler(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
        asked.append(context)
        return MetadataResponse(cluster_id="here")

    answer = gate_with(handler).handle(metadata_frame(), asking)
    assert isinstance(answer, list)
    (part,) = answer
    assert isinstance(part, bytearray)
    assert read_response(ApiKey.METADATA, 9, memoryview(part)[4:]) == (5, MetadataResponse(cluster_id="here"))
    (context,) = asked
    assert (context.services, context.session, context.version) == (SERVICES, asking, 9)


def test_a_session_is_called_as_its_latest_request_says() -> None:
    asking, gate = session(), gate_with(lambda context, request: MetadataResponse())
    for client_id in ("shop", "till", None):
        gate.handle(metadata_frame(client_id), asking)
        assert asking.client_id == client_id


def test_an_answer_may_be_parts_or_come_later() -> None:
    async def scenario() -> None:
        async def later() -> MetadataResponse:
            return MetadataResponse()

        answer = gate_with(lambda context, request: later()).handle(metadata_frame(), session())
        assert not isinstance(answer, list)
        assert len(await answer) == 1

    asyncio.run(scenario())
    assert gate_with(lambda context, request: [b"parts"]).handle(metadata_frame(), session()) == [b"parts"]
    deferred = Deferred(lambda: None)
    assert gate_with(lambda context, request: deferred).handle(metadata_frame(), session()) is deferred


def test_before_the_gate_opens_only_other_nodes_are_admitted() -> None:
    gate = Gate(SERVICES, registered)
    for_nodes = {*INTERNAL_APIS, *QUORUM_APIS, ApiKey.API_VERSIONS, ApiKey.DESCRIBE_QUORUM, ApiKey.FETCH}
    for_logins = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    assert {key for key in DECLARED_APIS if gate.admits(key)} == for_nodes | for_logins
    gate.open()
    assert gate.is_open
    assert all(gate.admits(key) for key in [*DECLARED_APIS, 1000])


@pytest.mark.parametrize("version", [-1, 14])
def test_a_version_that_is_not_served_is_refused_whoever_answers(version: int) -> None:
    gate = Gate(SERVICES, registered)
    for key, request in ((ApiKey.METADATA, MetadataRequest()), (ApiKey.PRODUCE, ProduceRequest())):
        sent = bytearray(frame(key, 9, request, 1)[4:])
        sent[2:4] = version.to_bytes(2, "big", signed=True)
        asking = session()
        gatherer = gate.gatherer_of(key, asking)
        take = gate_way(gate, gatherer, asking)
        with pytest.raises(KafkaError, match=f"{key.name} version {version} is not served") as refused:
            take(sent)
        assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION


def gate_way(gate: Gate, gatherer: Gatherer | None, asking: Session) -> Callable[[bytearray], object]:
    """How a connection hands a frame on."""
    if gatherer is None:
        return lambda sent: gate.handle(bytes(sent), asking)
    return lambda sent: gate.gather(gatherer, memoryview(sent), asking)


def test_an_api_that_is_not_served_and_bytes_that_are_no_request_are_refused() -> None:
    gate = Gate(SERVICES, registered)
    with pytest.raises(KafkaError, match="there is no API with key 1000"):
        gate.handle(b"\x03\xe8\0\0\0\0\0\x01\xff\xff", session())
    with pytest.raises(DecodeError):
        gate.handle(metadata_frame()[:9], session())
    assert gate.gatherer_of(1000, session()) is None


def test_each_connection_has_a_gatherer_of_its_own() -> None:
    gate, asking = Gate(SERVICES, registered), session()
    first, second = gate.gatherer_of(ApiKey.PRODUCE, asking), gate.gatherer_of(ApiKey.PRODUCE, asking)
    assert first is not None
    assert first is not second
    assert gate.gatherer_of(ApiKey.METADATA, asking) is None


def test_a_session_learns_its_software_from_api_versions() -> None:
    image = SimpleNamespace(last_offset=1, features={})
    services: Any = SimpleNamespace(
        quorum=SimpleNamespace(image=image),
        quotas=SERVICES.quotas,
        requests=RequestCounts(),
        config=SERVICES.config,
        client_metrics=SimpleNamespace(is_subscribed=False),
    )
    gate, asking = Gate(services, registered), session()
    for version, name, error in ((0, "", 0), (3, "-bad name-", ErrorCode.INVALID_REQUEST)):
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        assert ask_versions(gate, asking, version, request).error_code == error
        assert asking.software == UNKNOWN_SOFTWARE
    ask_versions(gate, asking, 3, ApiVersionsRequest("librdkafka", "2.6.0"))
    assert asking.software == ("librdkafka", "2.6.0")


def ask_versions(
    gate: Gate, asking: Session, version: int, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    answer = gate.handle(frame(ApiKey.API_VERSIONS, version, request, 1)[4:], asking)
    assert isinstance(answer, list)
    (part,) = answer
    assert isinstance(part, bytearray)
    response: ApiVersionsResponse = read_response(ApiKey.API_VERSIONS, version, memoryview(part)[4:])[1]
    return response


def test_a_remembered_decision_rests_on_the_partitions_that_are_hosted() -> None:
    services: Any = SimpleNamespace(partitions=SimpleNamespace(version=7), rights=None)
    asking = session()
    before = basis_of(services, asking)
    assert basis_of(services, asking) == before
    services.partitions.version = 8
    assert basis_of(services, asking) != before


def test_a_remembered_decision_rests_on_the_acls() -> None:
    acls: dict[UUID, Acl] = {}
    rights = Rights(AuthorisationConfig(class_name="acl"), lambda: acls)
    services: Any = SimpleNamespace(partitions=SimpleNamespace(version=7), rights=rights)
    asking = session()
    before = basis_of(services, asking)
    assert basis_of(services, asking) == before
    acls = {
        UUID(int=1): Acl(Pattern(ResourceType.TOPIC, "t"), "User:a", "*", Operation.READ, Permission.DENY)
    }
    assert basis_of(services, asking) != before
