"""The error table is Kafka's: numbers, names and what a client may retry."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KioErrorCode

from ottla.errors import ErrorCode, KafkaError


def test_codes_names_and_retriability_are_kafkas() -> None:
    theirs = {(code.name.upper(), int(code), code.retriable) for code in KioErrorCode}
    assert {(code.name, int(code), code.retriable) for code in ErrorCode} == theirs


def test_codes_have_no_gap_from_minus_one_to_the_last_of_kafka_4_3() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))


def test_every_code_has_a_sentence_of_its_own() -> None:
    messages = [code.message for code in ErrorCode]
    assert len(set(messages)) == len(messages)
    assert all(message.endswith(".") for message in messages)


def test_a_code_is_found_by_its_number() -> None:
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_error_speaks_the_codes_sentence_unless_it_has_its_own() -> None:
    assert KafkaError(ErrorCode.NOT_CONTROLLER).message == ErrorCode.NOT_CONTROLLER.message
    error = KafkaError(ErrorCode.INVALID_CONFIG, "segment.bytes must be at least 14")
    assert error.code is ErrorCode.INVALID_CONFIG
    assert str(error) == "INVALID_CONFIG: segment.bytes must be at least 14"
