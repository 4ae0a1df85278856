"""Options that begin with `kafka.`: used, accepted without effect, or refused with a reason."""

import pytest

from ottla.spark.option_values import OptionError
from ottla.spark.source.plan.kafka_options import USED, WITHOUT_EFFECT, client_settings


def test_settings_of_the_client_are_taken_without_their_prefix() -> None:
    given = {"kafka.fetch.max.bytes": "1000", "kafka.isolation.level": "READ_COMMITTED", "subscribe": "a"}
    assert client_settings(given) == {"fetch.max.bytes": "1000", "isolation.level": "read_committed"}


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_what_only_javas_consumer_has_is_accepted(name: str) -> None:
    assert client_settings({f"kafka.{name}": "1"}) == {}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("auto.offset.reset", "use 'startingOffsets'"),
        ("key.deserializer", "keys are binary"),
        ("value.deserializer", "values are binary"),
        ("enable.auto.commit", "'groupId' shows"),
        ("interceptor.classes", "interceptors could change"),
    ],
)
def test_what_breaks_a_promise_is_refused_with_the_reason(name: str, hint: str) -> None:
    with pytest.raises(OptionError, match=f"^Option 'kafka.{name}' is not supported: .*{hint}"):
        client_settings({f"kafka.{name}": "SASL_SSL"})


def test_a_misspelt_setting_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(
        OptionError, match=r"'kafka.fetch.max.byte' is unknown.* Did you mean 'kafka.fetch.max.bytes'\?"
    ):
        client_settings({"kafka.fetch.max.byte": "1"})
    with pytest.raises(OptionError, match=r"'kafka.zebra' is unknown.* docs/spark.md"):
        client_settings({"kafka.zebra": "1"})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("fetch.max.bytes", "0", "at least 1"),
        ("fetch.max.bytes", "many", "a whole number"),
        ("request.timeout.ms", "-5", "at least 1"),
        ("isolation.level", "committed", "read_uncommitted or read_committed"),
        ("check.crcs", "maybe", "true or false"),
        ("client.id", " ", "not be empty"),
    ],
)
def test_wrong_values_are_named(name: str, value: str, said: str) -> None:
    with pytest.raises(OptionError, match=f"^Option 'kafka.{name}' must.*{said}"):
        client_settings({f"kafka.{name}": value})


def test_no_setting_is_in_two_lists() -> None:
    assert not set(USED) & set(WITHOUT_EFFECT)
