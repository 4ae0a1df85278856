from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.unit.wire.fake_broker import HANG_UP, SILENCE, FakeBroker, all_versions

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.frame import RequestHeader, response_frame, write_request
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from ottla.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.connection import CannotConnectError, Connection
from ottla.wire.stream import ConnectionLostError
from ottla.wire.versions import FinalizedFeatures, VersionRange


def run(body: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine, and see that it left no task behind."""

    async def checked() -> None:
        await body
        left = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"

    asyncio.run(checked())


async def connect(broker: FakeBroker, **options: Any) -> Connection:
    return await Connection.open(
        broker.host, broker.port, timeout_ms=options.pop("timeout_ms", 10_000), **options
    )


def named(cluster_id: str) -> MetadataResponse:
    return MetadataResponse(cluster_id=cluster_id)


def echo(request: MetadataRequest, header: RequestHeader) -> MetadataResponse:
    assert request.topics is not None
    return named(request.topics[0].name or "")


def about(name: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


def test_a_request_goes_out_in_the_highest_version_both_speak() -> None:
    async def body() -> None:
        offered = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=0, max_version=7)])
        async with FakeBroker().on(ApiVersionsRequest, offered).on(MetadataRequest, named("c")) as broker:
            async with await connect(broker, client_id="me") as connection:
                assert (await connection.ask(MetadataRequest())).cluster_id == "c"
                assert (await connection.ask(MetadataRequest(), 4)).cluster_id == "c"
                assert connection.offers(ApiKey.METADATA) == VersionRange(0, 7)
                assert connection.offers(ApiKey.FETCH) is None
            headers = [header for header, request in broker.asked if isinstance(request, MetadataRequest)]
            assert [(header.api_version, header.client_id) for header in headers] == [(7, "me"), (4, "me")]

    run(body())


def test_a_connection_knows_the_feature_levels_of_its_cluster() -> None:
    async def body() -> None:
        levels = [FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=2)]
        offered = ApiVersionsResponse(finalized_features_epoch=7, finalized_features=levels)
        async with (
            FakeBroker().on(ApiVersionsRequest, offered) as broker,
            await connect(broker) as connection,
        ):
            assert connection.features == FinalizedFeatures(7, {"transaction.version": 2})

    run(body())


def test_the_first_question_names_our_software_in_our_newest_version() -> None:
    async def body() -> None:
        async with FakeBroker() as broker:
            await (await connect(broker)).close()
            header, request = broker.asked[0]
            assert header.api_version == APIS[ApiKey.API_VERSIONS].max_version
            assert request.client_software_name == "ottla"
            assert request.client_software_version[0].isdigit()

    run(body())


@pytest.mark.parametrize(
    ("told", "second"),
    [
        ([ApiVersion(api_key=18, min_version=0, max_version=2)], 2),
        ([ApiVersion(api_key=18, min_version=0, max_version=99)], 4),
        ([], 0),
    ],
)
def test_an_older_broker_is_asked_again_in_a_version_it_speaks(told: list[ApiVersion], second: int) -> None:
    def answer(request: ApiVersionsRequest, header: RequestHeader) -> Any:
        if len(broker.asked) > 1:
            return all_versions()
        refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=told)
        return bytes(response_frame(header.correlation_id, 18, 0, refusal))

    broker = FakeBroker().on(ApiVersionsRequest, answer)

    async def body() -> None:
        async with broker, await connect(broker) as connection:
            assert connection.offers(ApiKey.METADATA) is not None
        assert [header.api_version for header, _ in broker.asked] == [4, second]

    run(body())


def test_no_common_version_is_an_error_that_names_both_ranges() -> None:
    async def body() -> None:
        offered = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=20, max_version=21)])
        async with (
            FakeBroker().on(ApiVersionsRequest, offered) as broker,
            await connect(broker) as connection,
        ):
            with pytest.raises(
                KafkaError, match="METADATA v20 to v21, this client speaks v0 to v13"
            ) as caught:
                await connection.ask(MetadataRequest())
            assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
            with pytest.raises(KafkaError, match="does not serve DESCRIBE_CLUSTER"):
                await connection.ask(DescribeClusterRequest())

    run(body())


def test_pipelined_requests_each_get_their_own_answer() -> None:
    async def body() -> None:
        async with FakeBroker().on(MetadataRequest, echo) as broker, await connect(broker) as connection:
            names = [f"t{index}" for index in range(200)]
            answers = await asyncio.gather(*(connection.ask(about(name)) for name in names))
            assert [answer.cluster_id for answer in answers] == names
            assert broker.connections == 1

    run(body())


def test_answers_in_another_order_still_reach_the_right_asker() -> None:
    held: list[bytes] = []

    def answer(request: MetadataRequest, header: RequestHeader) -> Any:
        held.append(
            bytes(response_frame(header.correlation_id, 3, header.api_version, echo(request, header)))
        )
        return b"".join(reversed(held)) if len(held) == 3 else SILENCE

    async def body() -> None:
        async with FakeBroker().on(MetadataRequest, answer) as broker, await connect(broker) as connection:
            answers = await asyncio.gather(*(connection.ask(about(name)) for name in "abc"))
            assert [each.cluster_id for each in answers] == ["a", "b", "c"]

    run(body())


def test_answers_larger_than_a_read_arrive_whole() -> None:
    async def body() -> None:
        large = named("x" * 30_000)
        async with FakeBroker().on(MetadataRequest, large) as broker, await connect(broker) as connection:
            answers = await asyncio.gather(*(connection.ask(MetadataRequest()) for _ in range(100)))
            assert all(len(answer.cluster_id) == 30_000 for answer in answers)

    run(body())


def test_a_request_that_is_not_answered_in_time_fails_alone() -> None:
    async def body() -> None:
        broker = FakeBroker().on(MetadataRequest, SILENCE)
        broker.on(DescribeClusterRequest, DescribeClusterResponse(cluster_id="c"))
        async with broker, await connect(broker) as connection:
            slow = asyncio.create_task(connection.ask(MetadataRequest(), timeout_ms=50))
            assert (await connection.ask(DescribeClusterRequest())).cluster_id == "c"
            with pytest.raises(TimeoutError, match="did not answer METADATA within 50 ms"):
                await slow
            assert connection.is_open

    run(body())


def test_a_request_without_an_answer_leaves_nobody_waiting() -> None:
    async def body() -> None:
        broker = FakeBroker().on(MetadataRequest, SILENCE)
        broker.on(DescribeClusterRequest, DescribeClusterResponse(cluster_id="c"))
        async with broker, await connect(broker) as connection:
            await connection.tell(about("t"))
            assert (await connection.ask(DescribeClusterRequest())).cluster_id == "c"
            assert [each.topics[0].name for each in broker.asked_for(MetadataRequest)] == ["t"]
            await connection.close()
            with pytest.raises(ConnectionLostError):
                await connection.tell(about("t"))

    run(body())


def test_an_answer_that_comes_too_late_is_dropped() -> None:
    late: list[bytes] = []

    def hold(request: MetadataRequest, header: RequestHeader) -> Any:
        late.append(bytes(response_frame(header.correlation_id, 3, header.api_version, named("late"))))
        return SILENCE

    def release(request: DescribeClusterRequest, header: RequestHeader) -> Any:
        answer = response_frame(
            header.correlation_id, 60, header.api_version, DescribeClusterResponse(cluster_id="c")
        )
        return late.pop() + bytes(answer)

    async def body() -> None:
        broker = FakeBroker().on(MetadataRequest, hold).on(DescribeClusterRequest, release)
        async with broker, await connect(broker) as connection:
            with pytest.raises(TimeoutError):
                await connection.ask(MetadataRequest(), timeout_ms=20)
            assert (await connection.ask(DescribeClusterRequest())).cluster_id == "c"

    run(body())


def test_everyone_who_waits_hears_that_the_connection_is_lost() -> None:
    async def body() -> None:
        broker = FakeBroker().on(MetadataRequest, SILENCE).on(DescribeClusterRequest, HANG_UP)
        async with broker, await connect(broker) as connection:
            questions = [connection.ask(MetadataRequest()) for _ in range(5)]
            answers = await asyncio.gather(
                *questions, connection.ask(DescribeClusterRequest()), return_exceptions=True
            )
            assert [type(answer) for answer in answers] == [ConnectionLostError] * 6
            assert len({id(answer) for answer in answers}) == 6
            assert f"127.0.0.1:{broker.port} closed the connection" in str(answers[0])
            assert not connection.is_open
            with pytest.raises(ConnectionLostError, match="closed the connection"):
                await connection.ask(MetadataRequest())

    run(body())


def test_closing_wakes_those_who_wait_and_may_be_done_twice() -> None:
    async def body() -> None:
        async with FakeBroker().on(MetadataRequest, SILENCE) as broker:
            connection = await connect(broker)
            waiting = asyncio.create_task(connection.ask(MetadataRequest()))
            await asyncio.sleep(0)
            await connection.close()
            await connection.close()
            with pytest.raises(ConnectionLostError, match="was closed here"):
                await waiting

    run(body())


def test_bytes_that_make_no_sense_end_the_connection_with_a_reason() -> None:
    def nonsense(request: MetadataRequest, header: RequestHeader) -> bytes:
        return (8).to_bytes(4, "big") + header.correlation_id.to_bytes(4, "big") + b"\xff\xff\xff\xff"

    async def body() -> None:
        async with FakeBroker().on(MetadataRequest, nonsense) as broker, await connect(broker) as connection:
            with pytest.raises(
                ConnectionLostError, match=r"answered METADATA v13 with bytes that cannot be decoded"
            ):
                await connection.ask(MetadataRequest())
            assert not connection.is_open

    run(body())


def test_an_answer_to_a_question_never_asked_ends_the_connection() -> None:
    async def body() -> None:
        stray = bytes(response_frame(12345, 3, 13, named("c")))
        async with FakeBroker().on(MetadataRequest, stray) as broker, await connect(broker) as connection:
            with pytest.raises(ConnectionLostError, match="answered request 12345, which was never asked"):
                await connection.ask(MetadataRequest())

    run(body())


def test_a_frame_above_the_limit_ends_the_connection() -> None:
    async def body() -> None:
        broker = FakeBroker().on(MetadataRequest, named("x" * 5_000))
        async with broker, await connect(broker, max_frame_bytes=4_000) as connection:
            with pytest.raises(ConnectionLostError, match="4 to 4000 are accepted"):
                await connection.ask(MetadataRequest())

    run(body())


def test_a_server_that_speaks_http_is_named_as_such() -> None:
    async def body() -> None:
        page = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        async with FakeBroker().on(ApiVersionsRequest, page) as broker:
            with pytest.raises(ConnectionLostError, match="does not speak Kafka's protocol"):
                await connect(broker)

    run(body())


def test_a_port_where_nobody_listens_says_connection_refused() -> None:
    async def body() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            with pytest.raises(
                CannotConnectError, match=rf"could not reach localhost:{port}: connection refused"
            ):
                await Connection.open("localhost", port)

    run(body())


@pytest.mark.parametrize("host", ["no-such-host.invalid", "bad host name", "x" * 300])
def test_a_host_that_does_not_exist_cannot_be_reached(host: str) -> None:
    async def body() -> None:
        with pytest.raises(CannotConnectError, match="could not reach"):
            await Connection.open(host, 9092)

    run(body())


def test_a_broker_that_never_says_its_versions_does_not_hold_us_for_ever() -> None:
    async def body() -> None:
        async with FakeBroker().on(ApiVersionsRequest, SILENCE) as broker:
            with pytest.raises(TimeoutError, match="did not answer API_VERSIONS within 50 ms"):
                await connect(broker, timeout_ms=50)

    run(body())


def test_an_ipv6_address_works() -> None:
    async def body() -> None:
        async with FakeBroker("::1") as broker, await connect(broker) as connection:
            assert str(connection.address) == f"[::1]:{broker.port}"
            assert connection.is_open

    run(body())


def test_writing_waits_while_the_other_side_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def counted(header: RequestHeader, request: Any, out: bytearray) -> None:
        write_request(header, request, out)
        written.append(len(out))

    monkeypatch.setattr("ottla.wire.connection.write_request", counted)

    async def never_reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readexactly(4)
        body = await reader.readexactly(int.from_bytes(head, "big"))
        correlation_id = int.from_bytes(body[4:8], "big")
        writer.write(response_frame(correlation_id, 18, 4, all_versions()))
        reading.set()
        await stop.wait()
        writer.close()

    async def body() -> None:
        server = await asyncio.start_server(never_reads, "127.0.0.1", 0, limit=1024)
        connection = await Connection.open("127.0.0.1", server.sockets[0].getsockname()[1])
        await reading.wait()
        large = MetadataRequest(topics=about("x" * 30_000).topics, allow_auto_topic_creation=False)
        asking = [asyncio.create_task(connection.ask(large)) for _ in range(2_000)]
        for _ in range(20):
            await asyncio.sleep(0)
        # 60 MB were asked to go out; what the kernel did not take waits with its askers, not in our buffer.
        assert all(not task.done() for task in asking)
        assert 0 < sum(written) < 40_000_000
        await connection.close()
        answers = await asyncio.gather(*asking, return_exceptions=True)
        assert {type(answer) for answer in answers} == {ConnectionLostError}
        stop.set()
        server.close()
        await server.wait_closed()

    reading, stop = asyncio.Event(), asyncio.Event()
    asyncio.run(body())
