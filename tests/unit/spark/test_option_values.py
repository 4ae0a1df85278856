"""Values of options, and what is said about those that are none."""

import pytest

from ottla.spark.option_values import (
    OptionError,
    boolean,
    duration_ms,
    nearest,
    one_of,
    positive,
    whole,
)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), (" false ", False), ("False", False)]
)
def test_booleans_are_written_in_any_case(text: str, value: bool) -> None:
    assert boolean("x", text) is value


@pytest.mark.parametrize("text", ["yes", "1", "", "tru"])
def test_other_words_are_no_booleans(text: str) -> None:
    with pytest.raises(OptionError, match=f"^Option 'includeHeaders' must be true or false, not '{text}'"):
        boolean("includeHeaders", text)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "ten", "", str(2**63)])
def test_a_positive_number_is_a_whole_number_of_at_least_one(text: str) -> None:
    with pytest.raises(OptionError, match=r"^Option 'minPartitions' must be a whole number"):
        positive("minPartitions", text)


def test_numbers() -> None:
    assert (positive("x", " 7 "), positive("x", "0", zero=True), whole("x", "-3")) == (7, 0, -3)


@pytest.mark.parametrize(
    ("text", "value_ms"),
    [
        ("15m", 900_000),
        ("10 s", 10_000),
        ("500ms", 500),
        ("2H", 7_200_000),
        ("1d", 86_400_000),
        ("250", 250),
        ("1min", 60_000),
    ],
)
def test_times_are_written_as_spark_writes_them(text: str, value_ms: int) -> None:
    assert duration_ms("maxTriggerDelay", text) == value_ms


@pytest.mark.parametrize("text", ["", "m", "-5s", "5 weeks", "1.5m"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"^Option 'maxTriggerDelay' must be a time such as 500ms"):
        duration_ms("maxTriggerDelay", text)


def test_a_choice_names_what_there_is() -> None:
    assert one_of("s", "Latest", ("error", "latest")) == "latest"
    with pytest.raises(OptionError, match=r"^Option 's' must be error or latest, not 'first'"):
        one_of("s", "first", ("error", "latest"))


def test_the_nearest_name_keeps_its_case() -> None:
    assert nearest("maxoffsetpertrigger", ["maxOffsetsPerTrigger", "minPartitions"]) == "maxOffsetsPerTrigger"
    assert nearest("zebra", ["maxOffsetsPerTrigger"]) is None
