"""gRPC of the gateway, by clients that protoc generated, in front of a real broker (GTW-3)."""

from __future__ import annotations

import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status
from tests.integration.gateway_place import GatewayPlace, gateway_place, grant_everything
from tests.integration.grpc_stubs import PROTO, stubs
from tests.tls_authority import Authority

import ottla.testing
from ottla.cli.gateway import gateway as gateway_command
from ottla.gateway.grpc.messages import POOL
from ottla.localcluster.waiting import wait_until
from ottla.testing.embedded_broker import EmbeddedBroker

DEADLINE_S = 60
pb, services = stubs()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(settings={"auto.create.topics.enable": "false"}) as started:
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(
        broker.bootstrap, grpc_listen="127.0.0.1:0", max_body_bytes=100_000, max_streams=3
    ) as place:
        yield place


class Client:
    """The generated stubs over one channel."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self.producer = services.ProducerServiceStub(channel)
        self.consumer = services.ConsumerServiceStub(channel)
        self.topics = services.TopicServiceStub(channel)
        self.groups = services.GroupServiceStub(channel)

    def produce(self, topic: str, *values: bytes) -> Any:
        records = [pb.Record(value=each) for each in values]
        return self.producer.Produce(pb.ProduceRequest(topic=topic, records=records), timeout=DEADLINE_S)


@contextmanager
def calling(place: GatewayPlace) -> Iterator[Client]:
    with grpc.insecure_channel(f"127.0.0.1:{place.gateway.grpc_port}") as channel:
        yield Client(channel)


@pytest.fixture(scope="module")
def client(gateway: GatewayPlace) -> Iterator[Client]:
    with calling(gateway) as caller:
        yield caller


def reason(error: grpc.RpcError) -> tuple[str, str]:
    """The code, and Kafka's name of the error in the details."""
    status = rpc_status.from_call(error)
    assert status is not None
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "ottla"
    return error.code().name, info.reason


class Requests:
    """The requests of a stream, sent one by one."""

    def __init__(self) -> None:
        self._queue: Queue[Any] = Queue()

    def send(self, **fields: Any) -> None:
        self._queue.put(pb.ConsumeRequest(**fields))

    def end(self) -> None:
        self._queue.put(None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._queue.get, None)


def messages(stream: Any, count: int) -> list[Any]:
    """The next records of Consume; what else comes is passed over."""
    found: list[Any] = []
    while len(found) < count:
        found += next(stream).messages.messages
    return found


# ---- producing


def test_a_record_comes_back_as_it_was_sent(client: Client, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("grpc-round", partitions=2)
    headers = [pb.Header(name="a", value=b"\xff"), pb.Header(name="none")]
    record = pb.Record(key=b"k", value=b"", headers=headers, partition=1, timestamp_ms=1_700_000_000_000)
    gone = pb.Record(key=b"k", partition=1)
    answer = client.producer.Produce(
        pb.ProduceRequest(topic=topic, records=[record, gone]), timeout=DEADLINE_S
    )
    assert [(each.partition, each.offset, each.HasField("error")) for each in answer.outcomes] == [
        (1, 0, False),
        (1, 1, False),
    ]
    wanted = pb.SubscribeRequest(topics=[topic], offset_reset=pb.OFFSET_RESET_EARLIEST)
    stream = client.consumer.Subscribe(wanted, timeout=DEADLINE_S)
    first, second = next(stream), next(stream)
    stream.cancel()
    assert first == pb.Message(
        topic=topic,
        partition=1,
        offset=0,
        timestamp_ms=1_700_000_000_000,
        key=b"k",
        value=b"",
        headers=headers,
    )
    assert (second.key, second.HasField("value")) == (b"k", False)


def test_a_stream_of_requests_gets_an_answer_for_each_in_order(
    client: Client, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("grpc-stream")
    requests = [
        pb.ProduceRequest(topic=topic, records=[pb.Record(value=b"%d" % number)]) for number in range(200)
    ]
    requests[100] = pb.ProduceRequest(topic="nowhere", records=[pb.Record(value=b"x"), pb.Record(value=b"y")])
    requests[101] = pb.ProduceRequest(topic=topic)
    answers = list(client.producer.ProduceStream(iter(requests), timeout=DEADLINE_S))
    assert [each.error.name for each in answers[100].outcomes] == ["UNKNOWN_TOPIC_OR_PARTITION"] * 2
    assert [each.error.name for each in answers[101].outcomes] == ["INVALID_REQUEST"]
    offsets = [answer.outcomes[0].offset for answer in answers[:100] + answers[102:]]
    assert offsets == list(range(198))


def test_a_record_that_is_too_large_has_an_outcome_of_its_own(client: Client, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("grpc-large", configs={"max.message.bytes": "1000"})
    large, small = client.produce(topic, b"x" * 5_000, b"y").outcomes
    assert (large.error.name, large.offset) == ("MESSAGE_TOO_LARGE", -1)
    assert not large.error.is_retriable
    assert small.offset == 0 or small.error.name == "MESSAGE_TOO_LARGE"  # both were one batch


# ---- subscriptions


def test_a_group_goes_on_behind_its_commit(client: Client, broker: EmbeddedBroker) -> None:
    """As the source document does it: Subscribe with topics and a group, Commit, GetOffsets."""
    topic = broker.create_topic("user-events")
    client.produce(topic, b"one", b"two", b"three")
    wanted = pb.SubscribeRequest(topics=[topic], group_id="my-group", offset_reset=pb.OFFSET_RESET_EARLIEST)
    stream = client.consumer.Subscribe(wanted, timeout=DEADLINE_S)
    assert [next(stream).value for _ in range(3)] == [b"one", b"two", b"three"]
    done = pb.PartitionOffset(topic=topic, partition=0, offset=2, metadata="two are done")
    client.consumer.Commit(pb.CommitRequest(group_id="my-group", offsets=[done]), timeout=DEADLINE_S)
    stream.cancel()
    offsets = client.consumer.GetOffsets(
        pb.GetOffsetsRequest(group_id="my-group"), timeout=DEADLINE_S
    ).offsets
    assert list(offsets) == [
        pb.PartitionOffsets(
            topic=topic,
            partition=0,
            beginning_offset=0,
            end_offset=3,
            committed_offset=2,
            metadata="two are done",
        )
    ]
    again = client.consumer.Subscribe(wanted, timeout=DEADLINE_S)
    assert next(again).value == b"three"
    again.cancel()


def test_credits_and_acknowledgements_rule_a_stream(client: Client, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("grpc-consume")
    client.produce(topic, *(b"%d" % number for number in range(6)))
    wanted = pb.SubscribeRequest(
        topics=[topic], group_id="acks", offset_reset=pb.OFFSET_RESET_EARLIEST, credits=2
    )
    requests = Requests()
    requests.send(subscribe=wanted)
    stream = client.consumer.Consume(iter(requests), timeout=DEADLINE_S)
    assert next(stream).assigned == pb.Partitions(partitions=[pb.TopicPartition(topic=topic)])
    first, second = messages(stream, 2)
    requests.send(ack=pb.Acknowledgement(topic=topic, partition=0, offset=second.offset, up_to=True))
    requests.send(credit=pb.Credit(count=1))
    assert [each.value for each in messages(stream, 1)] == [b"2"]
    requests.send(seek=pb.Seek(topic=topic, partition=0, offset=5))
    requests.send(credit=pb.Credit(count=1))
    assert [each.value for each in messages(stream, 1)] == [b"5"]
    requests.end()
    assert [each for each in stream if each.HasField("messages")] == []
    asked = pb.GetOffsetsRequest(group_id="acks", partitions=[pb.TopicPartition(topic=topic)])
    (found,) = client.consumer.GetOffsets(asked, timeout=DEADLINE_S).offsets
    assert (first.value, found.committed_offset) == (b"0", 2)


def test_a_caller_that_cancels_leaves_its_group(
    gateway: GatewayPlace, client: Client, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("grpc-cancel")
    wanted = pb.SubscribeRequest(topics=[topic], group_id="leaves")
    with pytest.raises(grpc.RpcError) as refused:
        next(client.consumer.Subscribe(wanted, timeout=1.5))
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    wait_until(lambda: state_of(client, "leaves") in ("Empty", "gone"), "the member left")
    wait_until(lambda: stream_count(gateway) == 0, "no stream is left")


def state_of(client: Client, group: str) -> str:
    listed = client.groups.ListGroups(pb.ListGroupsRequest(), timeout=DEADLINE_S).groups
    return next((each.state for each in listed if each.group_id == group), "gone")


def stream_count(place: GatewayPlace) -> int:
    return place.gateway.stream_count


# ---- topics and groups


def test_topics_are_made_shown_and_deleted(client: Client) -> None:
    asked = pb.CreateTopicRequest(name="grpc-made", partitions=3, configs={"retention.ms": "1000"})
    assert len(client.topics.CreateTopic(asked, timeout=DEADLINE_S).partitions) == 3
    shown = client.topics.DescribeTopic(pb.DescribeTopicRequest(name="grpc-made"), timeout=DEADLINE_S)
    assert [each.partition for each in shown.partitions] == [0, 1, 2]
    names = {
        each.name for each in client.topics.ListTopics(pb.ListTopicsRequest(), timeout=DEADLINE_S).topics
    }
    assert "grpc-made" in names
    with pytest.raises(grpc.RpcError) as refused:
        client.topics.CreateTopic(asked, timeout=DEADLINE_S)
    assert reason(refused.value) == ("ALREADY_EXISTS", "TOPIC_ALREADY_EXISTS")
    client.topics.DeleteTopic(pb.DeleteTopicRequest(name="grpc-made"), timeout=DEADLINE_S)
    with pytest.raises(grpc.RpcError) as missing:
        client.topics.DescribeTopic(pb.DescribeTopicRequest(name="grpc-made"), timeout=DEADLINE_S)
    assert reason(missing.value) == ("NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION")


def test_groups_are_shown_with_their_lag_and_deleted(client: Client, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("grpc-lag")
    client.produce(topic, b"one", b"two")
    done = pb.PartitionOffset(topic=topic, partition=0, offset=1)
    client.consumer.Commit(pb.CommitRequest(group_id="lagging", offsets=[done]), timeout=DEADLINE_S)
    group = client.groups.DescribeGroup(pb.DescribeGroupRequest(group_id="lagging"), timeout=DEADLINE_S)
    assert (group.state, [each.lag for each in group.lags]) == ("Empty", [1])
    client.groups.DeleteGroup(pb.DeleteGroupRequest(group_id="lagging"), timeout=DEADLINE_S)
    with pytest.raises(grpc.RpcError) as missing:
        client.groups.DescribeGroup(pb.DescribeGroupRequest(group_id="lagging"), timeout=DEADLINE_S)
    assert reason(missing.value) == ("NOT_FOUND", "GROUP_ID_NOT_FOUND")


# ---- what the services say of themselves


def test_the_messages_are_those_that_protoc_makes() -> None:
    """The classes are made from the .proto text by our own parser: protoc reads the same out of it."""
    own, protocs = FileDescriptorProto(), FileDescriptorProto()
    POOL.FindFileByName(PROTO).CopyToProto(own)
    pb.DESCRIPTOR.CopyToProto(protocs)
    assert own == protocs


def test_health_and_reflection_are_served(client: Client) -> None:
    health = health_pb2_grpc.HealthStub(client.channel)
    asked = health_pb2.HealthCheckRequest(service="ottla.v1.ConsumerService")
    assert health.Check(asked, timeout=DEADLINE_S).status == health_pb2.HealthCheckResponse.SERVING
    reflection = reflection_pb2_grpc.ServerReflectionStub(client.channel)
    listing = reflection_pb2.ServerReflectionRequest(list_services="")
    whole = reflection_pb2.ServerReflectionRequest(file_containing_symbol="ottla.v1.ProducerService")
    listed, found = reflection.ServerReflectionInfo(iter([listing, whole]), timeout=DEADLINE_S)
    names = {each.name for each in listed.list_services_response.service}
    assert {"ottla.v1.TopicService", "ottla.v1.GroupService", "grpc.health.v1.Health"} <= names
    assert b"ottla/v1/gateway.proto" in found.file_descriptor_response.file_descriptor_proto[0]


# ---- bad input


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda c: c.produce("", b"x"), "INVALID_REQUEST"),
        (lambda c: c.produce("nowhere", b"x"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (lambda c: c.produce("../../etc", b"x"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (lambda c: c.producer.Produce(pb.ProduceRequest(topic="t")), "INVALID_REQUEST"),
        (
            lambda c: c.producer.Produce(pb.ProduceRequest(topic="t", records=[pb.Record()])),
            "INVALID_REQUEST",
        ),
        (lambda c: next(c.consumer.Subscribe(pb.SubscribeRequest())), "INVALID_REQUEST"),
        (
            lambda c: next(c.consumer.Subscribe(pb.SubscribeRequest(topics=["t"], credits=1))),
            "INVALID_REQUEST",
        ),
        (
            lambda c: next(c.consumer.Subscribe(pb.SubscribeRequest(topics=["nowhere"]))),
            "UNKNOWN_TOPIC_OR_PARTITION",
        ),
        (
            lambda c: next(c.consumer.Subscribe(pb.SubscribeRequest(topics=["t"], offset_reset=9))),
            "INVALID_REQUEST",
        ),
        (lambda c: next(c.consumer.Consume(iter([]))), "INVALID_REQUEST"),
        (lambda c: next(c.consumer.Consume(iter([pb.ConsumeRequest()]))), "INVALID_REQUEST"),
        (lambda c: c.consumer.Commit(pb.CommitRequest(group_id="g")), "INVALID_REQUEST"),
        (lambda c: c.consumer.GetOffsets(pb.GetOffsetsRequest()), "INVALID_REQUEST"),
        (lambda c: c.topics.CreateTopic(pb.CreateTopicRequest(name="a/b")), "INVALID_TOPIC_EXCEPTION"),
        (lambda c: c.topics.CreateTopic(pb.CreateTopicRequest(name="x", partitions=-1)), "INVALID_REQUEST"),
        (
            lambda c: c.topics.CreateTopic(pb.CreateTopicRequest(name="x", configs={"no.such": "1"})),
            "INVALID_CONFIG",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_kafkas_name_for_it(client: Client, call: Any, code: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        call(client)
    assert reason(refused.value)[1] == code
    assert refused.value.details()


def test_a_message_over_the_limit_is_refused_and_others_are_served(
    client: Client, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("grpc-limit")
    with pytest.raises(grpc.RpcError) as refused:
        client.produce(topic, b"x" * 200_000)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert client.produce(topic, b"small").outcomes[0].offset == 0


def test_bytes_that_are_no_message_are_refused(client: Client) -> None:
    call = client.channel.unary_unary("/ottla.v1.ProducerService/Produce")
    with pytest.raises(grpc.RpcError) as refused:
        call(b"\xff\xff\xff", timeout=DEADLINE_S)
    assert reason(refused.value) == ("INVALID_ARGUMENT", "INVALID_REQUEST")
    stream = client.channel.stream_stream("/ottla.v1.ConsumerService/Consume")
    with pytest.raises(grpc.RpcError) as cut_off:
        next(stream(iter([b"\x0a\xff"]), timeout=DEADLINE_S))
    assert reason(cut_off.value) == ("INVALID_ARGUMENT", "INVALID_REQUEST")


def test_streams_have_a_limit(gateway: GatewayPlace, client: Client, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("grpc-many")
    wait_until(lambda: stream_count(gateway) == 0, "no stream is open")
    wanted = pb.SubscribeRequest(topics=[topic])
    streams = [client.consumer.Subscribe(wanted, timeout=DEADLINE_S) for _ in range(3)]
    wait_until(lambda: stream_count(gateway) == 3, "three streams are open")
    with pytest.raises(grpc.RpcError) as refused:
        next(client.consumer.Subscribe(wanted, timeout=DEADLINE_S))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    for stream in streams:
        stream.cancel()
    wait_until(lambda: stream_count(gateway) == 0, "all streams have ended")


def test_a_login_that_this_gateway_does_not_take_is_refused(client: Client) -> None:
    for header in ("Basic " + b64encode(b"u:p").decode(), "Bearer x", "Basic ???", "Magic x"):
        with pytest.raises(grpc.RpcError) as refused:
            client.topics.ListTopics(pb.ListTopicsRequest(), metadata=[("authorization", header)])
        assert reason(refused.value) == ("UNAUTHENTICATED", "SASL_AUTHENTICATION_FAILED")


# ---- the end


def test_a_stop_commits_and_tells_the_callers(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("grpc-stop")
    requests = Requests()
    wanted = pb.SubscribeRequest(topics=[topic], group_id="stopped", offset_reset=pb.OFFSET_RESET_EARLIEST)
    requests.send(subscribe=wanted)
    with gateway_place(broker.bootstrap, grpc_listen="127.0.0.1:0") as place, calling(place) as caller:
        caller.produce(topic, b"one")
        stream = caller.consumer.Consume(iter(requests), timeout=DEADLINE_S)
        (first,) = messages(stream, 1)
        requests.send(ack=pb.Acknowledgement(topic=topic, partition=0, offset=first.offset))
        # The answer to a second request says that the first one was heard.
        requests.send(seek=pb.Seek(topic=topic, partition=0, offset=0))
        messages(stream, 1)
        place.thread.run(place.gateway.stop, DEADLINE_S)
        with pytest.raises(grpc.RpcError) as told:
            list(stream)
        assert told.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "stops" in told.value.details()
    requests.end()
    with gateway_place(broker.bootstrap, grpc_listen="127.0.0.1:0") as place, calling(place) as caller:
        (found,) = caller.consumer.GetOffsets(pb.GetOffsetsRequest(group_id="stopped")).offsets
        assert found.committed_offset == 1


# ---- TLS, logins, the process


def test_callers_log_in_over_tls_and_act_as_themselves(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("gateway").broker_settings()
    guarded = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
    }
    users = {"alice": "secret-a", "bob": "secret-b", "root": "secret-r"}
    with ottla.testing.broker(settings=guarded, users=users) as broker:
        topic = broker.create_topic("grpc-guarded")
        grant_everything(broker, "alice", topic)
        with gateway_place(
            broker.bootstrap,
            grpc_listen="localhost:0",
            requires_login=True,
            login_mechanism="SCRAM-SHA-256",
            certificate_file=files["ottla.ssl.certificate.file"],
            key_file=files["ottla.ssl.key.file"],
        ) as place:
            credentials = grpc.ssl_channel_credentials(authority.ca_file.read_bytes())
            with grpc.secure_channel(f"localhost:{place.gateway.grpc_port}", credentials) as channel:
                caller = Client(channel)
                asked = pb.ProduceRequest(topic=topic, records=[pb.Record(value=b"x")])
                good = basic("alice", "secret-a")
                assert caller.producer.Produce(asked, metadata=good).outcomes[0].offset == 0
                for metadata, codes in (
                    (None, {"UNAUTHENTICATED"}),
                    (basic("alice", "guess"), {"UNAUTHENTICATED"}),
                    (basic("bob", "secret-b"), {"PERMISSION_DENIED", "NOT_FOUND"}),
                ):
                    with pytest.raises(grpc.RpcError) as refused:
                        caller.producer.Produce(asked, metadata=metadata)
                    assert refused.value.code().name in codes


def basic(user: str, password: str) -> list[tuple[str, str]]:
    return [("authorization", "Basic " + b64encode(f"{user}:{password}".encode()).decode())]


def test_the_process_says_where_grpc_is(broker: EmbeddedBroker) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "gateway", "--bootstrap", broker.bootstrap]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "-q"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        found = re.search(r", gRPC at 127.0.0.1:(\d+) ", process.stdout.readline())
        assert found is not None
        with grpc.insecure_channel(f"127.0.0.1:{found[1]}") as channel:
            Client(channel).topics.ListTopics(pb.ListTopicsRequest(), timeout=DEADLINE_S)
        process.terminate()
        assert process.wait(DEADLINE_S) == 0


def test_an_address_that_is_in_use_is_refused_in_words(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    where = f"127.0.0.1:{gateway.gateway.grpc_port}"
    options = ["--bootstrap", broker.bootstrap, "--listen", "127.0.0.1:0", "--grpc"]
    for given, words in ((where, "choose another with --grpc"), ("nonsense", "ottla.gateway.grpc.listen")):
        done = CliRunner().invoke(gateway_command, [*options, given])
        assert (done.exit_code, words in done.output) == (2, True), done.output
