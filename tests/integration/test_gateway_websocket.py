"""WebSockets of the gateway over real sockets, in front of a real broker: GTW-2."""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.gateway_place import GatewayPlace, gateway_place
from tests.integration.web_socket_caller import Caller, calling

import ottla.testing
from ottla.localcluster.waiting import wait_until
from ottla.testing.embedded_broker import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(settings={"auto.create.topics.enable": "false"}) as started:
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(broker.bootstrap) as place:
        yield place


def values(messages: list[dict[str, Any]]) -> list[Any]:
    return [message["value"] for message in messages]


def ack(caller: Caller, message: dict[str, Any], **fields: Any) -> None:
    place = {name: message[name] for name in ("topic", "partition", "offset")}
    caller.say(type="ack", **place, **fields)


# ---- subscriptions


def test_a_group_hears_records_and_goes_on_behind_the_acknowledged_ones(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    """As the WebSocket class of the source document does it: subscribe, message, ack, reconnect."""
    topic = broker.create_topic("ws-group")
    gateway.produce(topic, {"action": "login"}, "second", "third")
    wanted = {"type": "subscribe", "topics": [topic], "group_id": "web", "offset_reset": "earliest"}
    with calling(gateway.port, "/consume") as caller:
        caller.say(**wanted)
        assert caller.hear() == {"type": "subscribed", "topics": [topic], "group_id": "web"}
        assert caller.hear()["type"] == "assigned"
        first, second, third = caller.messages(3)
        assert first == {
            "type": "message",
            "topic": topic,
            "partition": 0,
            "offset": 0,
            "timestamp": first["timestamp"],
            "key": None,
            "value": {"action": "login"},
            "headers": {},
        }
        ack(caller, third)
        ack(caller, first)
        assert caller.ask(type="ping")["type"] == "pong"
    with calling(gateway.port) as caller:
        caller.say(**wanted)
        # The second was not acknowledged: it comes again, and so does what was sent after it.
        assert values(caller.messages(2)) == ["second", "third"]
        ack(caller, third, up_to=True)
        assert caller.ask(type="unsubscribe") == {"type": "ok", "of": "unsubscribe", "id": "asked"}
        gateway.produce(topic, "fourth")
        caller.say(**wanted)
        assert values(caller.messages(1)) == ["fourth"]
    assert second["offset"] == 1


def test_without_a_group_a_caller_says_where_to_begin(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("ws-plain", 2)
    gateway.produce(topic, 0, 1, 2)
    gateway.produce(topic, "other", partition=1)
    with calling(gateway.port) as caller:
        offsets = [{"topic": topic, "partition": 0, "offset": 2}]
        answer = caller.ask(type="subscribe", topics=[topic], offsets=offsets, offset_reset="earliest")
        assert answer["type"] == "subscribed"
        assert sorted(map(str, values(caller.messages(2)))) == ["2", "other"]
        caller.ask(type="seek", topic=topic, partition=0, offset="earliest")
        assert values(caller.messages(3)) == [0, 1, 2]
        caller.ask(type="seek", topic=topic, partition=0, offset=1)
        assert values(caller.messages(2)) == [1, 2]
        caller.ask(type="seek", topic=topic, partition=0, offset="latest")
        gateway.produce(topic, "new")
        assert values(caller.messages(1)) == ["new"]


def test_credits_hold_records_back(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("ws-credits")
    gateway.produce(topic, *range(10))
    with calling(gateway.port) as caller:
        caller.say(type="subscribe", topics=[topic], offset_reset="earliest", credits=2)
        assert values(caller.messages(2)) == [0, 1]
        assert caller.ask(type="ping")["type"] == "pong"
        caller.say(type="credit", count=3)
        assert values(caller.messages(3)) == [2, 3, 4]
        caller.ask(type="pause")
        caller.say(type="credit", count=2)
        assert caller.ask(type="ping")["type"] == "pong"  # and no record came before it
        caller.ask(type="resume")
        assert values(caller.messages(2)) == [5, 6]


def test_a_group_sends_a_window_of_records_and_waits_for_acknowledgements(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("ws-window")
    gateway.produce(topic, *range(501))
    with calling(gateway.port) as caller:
        caller.say(type="subscribe", topics=[topic], group_id="window", offset_reset="earliest")
        seen = caller.messages(500)
        assert caller.ask(type="ping")["type"] == "pong"
        ack(caller, seen[0])
        assert values(caller.messages(1)) == [500]


def test_members_of_a_group_share_its_partitions(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("ws-shared", 2)
    wanted = {
        "type": "subscribe",
        "topics": [topic],
        "group_id": "shared-sockets",
        "offset_reset": "earliest",
    }
    with calling(gateway.port) as first:
        first.say(**wanted)
        assert len(first.hear("assigned")["partitions"]) == 2
        with calling(gateway.port) as second:
            second.say(**wanted)
            [taken] = second.hear("assigned")["partitions"]
            assert len(first.hear("revoked")["partitions"]) == 2
            [kept] = first.hear("assigned")["partitions"]
            gateway.produce(topic, "for first", partition=kept["partition"])
            gateway.produce(topic, "for second", partition=taken["partition"])
            assert values(first.messages(1)) == ["for first"]
            assert values(second.messages(1)) == ["for second"]


# ---- producing


def test_records_are_produced_in_order_and_answered(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("ws-produce")
    with calling(gateway.port) as caller:
        for number in range(20):
            caller.say(
                type="produce",
                topic=topic,
                value={"n": number},
                key="k",
                headers={"source": "web"},
                id=number,
            )
        answers = [caller.hear("produced") for _ in range(20)]
        assert [(each["id"], each["offset"]) for each in answers] == [(n, n) for n in range(20)]
        raw = b64encode(b"\xff\x00").decode()
        assert caller.ask(type="produce", topic=topic, value=raw, value_encoding="base64")["offset"] == 20
    records = broker.records(topic)
    assert [each.value for each in records[:2]] == [b'{"n":0}', b'{"n":1}']
    assert (records[0].key, records[0].headers, records[20].value) == (
        b"k",
        (("source", b"web"),),
        b"\xff\x00",
    )


# ---- what goes wrong


@pytest.mark.parametrize(
    ("text", "error_code"),
    [
        ("{", 400),
        ("[]", 422),
        ('{"type": "dance"}', 422),
        ('{"type": ["ping"]}', 422),
        ('{"type": "ping", "extra": 1}', 422),
        ('{"type": "subscribe"}', 422),
        ('{"type": "subscribe", "topics": ["t"], "offset_reset": "noon"}', 422),
        ('{"type": "subscribe", "topics": ["t"], "group_id": 5}', 422),
        ('{"type": "subscribe", "topics": ["t"], "group_id": "g", "offsets": []}', 422),
        ('{"type": "subscribe", "topics": ["no-such-topic"]}', 40401),
        ('{"type": "ack", "topic": "t", "partition": 0, "offset": 0}', 409),
        ('{"type": "seek", "topic": "t", "partition": -1, "offset": 0}', 422),
        ('{"type": "credit", "count": 0}', 422),
        ('{"type": "produce", "topic": "t"}', 422),
        ('{"type": "produce", "topic": "no-such-topic", "value": 1}', 40401),
        ('{"type": "produce", "topic": "../x", "value": 1}', 40401),
        ('{"type": "produce", "topic": "t", "value": "*", "value_encoding": "base64"}', 422),
        ('{"type": "auth", "username": "u", "password": "p"}', 40101),
        ('{"type": "auth", "username": "u"}', 422),
    ],
)
def test_a_message_that_cannot_be_used_is_answered_and_the_socket_stays(
    gateway: GatewayPlace, text: str, error_code: int
) -> None:
    with calling(gateway.port) as caller:
        caller.say_text(text)
        answer = caller.hear()
        assert (answer["type"], answer["error_code"]) == ("error", error_code)
        assert len(answer["message"]) > 10
        assert caller.ask(type="ping")["type"] == "pong"


def test_what_was_never_sent_cannot_be_acknowledged(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("ws-wrong-ack")
    with calling(gateway.port) as caller:
        caller.ask(type="subscribe", topics=[topic], group_id="wrong-ack")
        assert caller.ask(type="ack", topic=topic, partition=0, offset=7)["error_code"] == 422
        assert caller.ask(type="credit", count=5)["error_code"] == 422
        assert caller.ask(type="seek", topic="elsewhere", partition=0, offset=7)["error_code"] == 40402
        assert caller.ask(type="subscribe", topics=[topic])["error_code"] == 409


def frame(opcode: int, payload: bytes, *, is_final: bool = True, is_masked: bool = True) -> bytes:
    """One frame, masked with zeros; its length is announced in eight bytes if it is long."""
    head = bytes([opcode | (0x80 if is_final else 0)])
    mask = 0x80 if is_masked else 0
    size = len(payload)
    if size < 126:
        head += bytes([size | mask])
    elif size < 65536:
        head += bytes([126 | mask]) + struct.pack("!H", size)
    else:
        head += bytes([127 | mask]) + struct.pack("!Q", size)
    return head + (bytes(4) if is_masked else b"") + payload


TEXT, CONTINUED, BINARY = 1, 0, 2


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(BINARY, b"bytes"), 1003),
        (frame(TEXT, b"{}", is_masked=False), 1002),
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(3, b"unknown opcode"), 1002),
        (frame(CONTINUED, b"of nothing"), 1002),
        (frame(TEXT, b"x" * (2 << 20)), 1009),
        (
            frame(TEXT, b"x" * 1000, is_final=False) + frame(CONTINUED, b"x" * 60_000, is_final=False) * 40,
            1009,
        ),
        (frame(TEXT, b"", is_final=False) + frame(CONTINUED, b"", is_final=False) * 5_000, 1009),
        (b"\xf1" + frame(TEXT, b"{}")[1:], 1002),  # a reserved bit: compression that nobody agreed on
    ],
    ids=[
        "binary",
        "unmasked",
        "no-text",
        "opcode",
        "continued",
        "large",
        "fragments",
        "empty-fragments",
        "reserved",
    ],
)
def test_frames_that_break_the_protocol_close_the_socket(
    gateway: GatewayPlace, sent: bytes, code: int
) -> None:
    with calling(gateway.port) as caller:
        caller.sock.sendall(sent)
        assert caller.hear_close()[0] == code
    assert gateway.call("GET", "/brokers").status == 200


def test_an_upgrade_that_is_not_right_is_refused(gateway: GatewayPlace) -> None:
    assert gateway.call("GET", "/ws").status == 426
    half = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "8",
        "Sec-WebSocket-Key": "x",
    }
    assert gateway.call("GET", "/ws", headers=half).status == 426


def test_pages_of_other_origins_are_refused(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    own = {"Origin": f"http://127.0.0.1:{gateway.port}"}
    other = {"Origin": "https://evil.example"}
    with calling(gateway.port, headers=own) as caller:
        assert caller.status == 101
    with calling(gateway.port, headers=other) as caller:
        assert caller.status == 403
    allowed = gateway_place(broker.bootstrap, allowed_origins=("https://evil.example",))
    with allowed as place, calling(place.port, headers=other) as caller:
        assert caller.status == 101


def test_sockets_over_the_limit_are_closed(broker: EmbeddedBroker) -> None:
    with gateway_place(broker.bootstrap, max_sockets=1) as small, calling(small.port) as first:
        assert first.ask(type="ping")["type"] == "pong"
        with calling(small.port) as second:
            assert second.hear_close()[0] == 1013


def test_a_caller_that_answers_no_ping_is_closed(broker: EmbeddedBroker) -> None:
    with gateway_place(broker.bootstrap, ping_interval_ms=50) as place, calling(place.port) as caller:
        caller.answers_pings = False
        assert caller.hear_close()[0] == 1002


def test_a_slow_caller_holds_back_only_itself(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("ws-slow")
    with gateway_place(broker.bootstrap, send_timeout_ms=500) as place:
        for _ in range(30):
            place.produce(topic, "x" * 500_000)
        with calling(place.port) as slow, calling(place.port) as fast:
            for caller in (slow, fast):
                caller.say(type="subscribe", topics=[topic], offset_reset="earliest")
            assert len(fast.messages(30)) == 30
            # The slow one takes nothing for longer than it may, and is given up.
            wait_until(lambda: place.gateway.socket_count == 1, "the slow caller is given up")
            assert fast.ask(type="ping")["type"] == "pong"


def test_a_stop_commits_and_tells_the_callers(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("ws-stop")
    wanted = {
        "type": "subscribe",
        "topics": [topic],
        "group_id": "stopped-sockets",
        "offset_reset": "earliest",
    }
    with gateway_place(broker.bootstrap) as place:
        place.produce(topic, "a", "b")
        caller = Caller(place.port)
        caller.say(**wanted)
        first, _ = caller.messages(2)
        ack(caller, first)
        assert caller.ask(type="ping")["type"] == "pong"
    assert caller.hear_close()[0] == 1001
    caller.sock.close()
    with gateway_place(broker.bootstrap) as place, calling(place.port) as caller:
        caller.say(**wanted)
        assert values(caller.messages(1)) == ["b"]


def test_a_browser_logs_in_by_a_message() -> None:
    with ottla.testing.broker(users={"alice": "secret"}) as broker:
        topic = broker.create_topic("ws-login")
        guarded = gateway_place(broker.bootstrap, requires_login=True, login_mechanism="PLAIN")
        with guarded as place, calling(place.port) as caller:
            assert caller.ask(type="produce", topic=topic, value=1)["error_code"] == 40101
            assert caller.ask(type="auth", username="alice", password="guess")["error_code"] == 40101
            assert caller.ask(type="auth", username="alice", password="secret")["type"] == "ok"
            assert caller.ask(type="produce", topic=topic, value=1)["offset"] == 0
