from __future__ import annotations

import pytest

from ottla.client.requests.outcomes import error_of, outcome, succeeded
from ottla.errors import ErrorCode, KafkaError


def test_outcomes_without_an_error_are_their_values() -> None:
    assert succeeded({"a": 1, "b": 2}) == {"a": 1, "b": 2}


def test_the_first_error_among_outcomes_is_raised() -> None:
    with pytest.raises(KafkaError, match="no such thing"):
        succeeded({"a": 1, "b": KafkaError(ErrorCode.INVALID_REQUEST, "no such thing")})


def test_an_error_carries_the_brokers_words_or_ours() -> None:
    assert outcome(0, "value") == "value"
    theirs, ours = outcome(36, None, "it is there"), outcome(36, None)
    assert isinstance(theirs, KafkaError)
    assert isinstance(ours, KafkaError)
    assert (theirs.code, theirs.message) == (ErrorCode.TOPIC_ALREADY_EXISTS, "it is there")
    assert ours.message == ErrorCode.TOPIC_ALREADY_EXISTS.message


def test_an_error_number_from_the_future_is_not_a_crash() -> None:
    error = error_of(9999)
    assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "9999" in error.message
