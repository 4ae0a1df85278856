"""Dead letters of Ottla, Kafka Connect and Spring say where they came from."""

from __future__ import annotations

from ottla.gateway.console.machine.dead_letters import Origin, headers_before, origin_of

OURS = (
    ("trace", b"1"),
    ("dead-letter.reason", b"no price"),
    ("dead-letter.topic", b"orders"),
    ("dead-letter.partition", b"2"),
    ("dead-letter.offset", b"41"),
)


def test_our_own_headers_are_understood() -> None:
    assert origin_of(OURS) == Origin("no price", "orders", 2, 41)
    assert headers_before(OURS) == (("trace", b"1"),)


def test_those_of_connect_and_spring_are_understood() -> None:
    connect = (("__connect.errors.topic", b"orders"), ("__connect.errors.offset", b"7"))
    assert origin_of(connect) == Origin(None, "orders", None, 7)
    spring = (
        ("kafka_dlt-original-topic", b"orders"),
        ("kafka_dlt-original-partition", (3).to_bytes(4, "big")),
        ("kafka_dlt-original-offset", (900).to_bytes(8, "big")),
        ("kafka_dlt-exception-message", b"boom"),
    )
    assert origin_of(spring) == Origin("boom", "orders", 3, 900)


def test_other_records_are_no_dead_letters() -> None:
    assert origin_of(()) is None
    assert origin_of((("trace", b"1"), ("dead-letter.offset", b"x"))) is None


def test_numbers_that_are_none_are_left_out() -> None:
    assert origin_of((("dead-letter.topic", b"t"), ("dead-letter.offset", b"x"))) == Origin(
        None, "t", None, None
    )
