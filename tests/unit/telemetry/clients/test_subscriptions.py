"""Which clients are asked for which metrics."""

from __future__ import annotations

from uuid import UUID

import pytest

from ottla.config import ConfigError
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.telemetry.clients.subscriptions import Client, subscriptions_of, wanted_of

ID = UUID(int=7)
CLIENT = Client("AAAA", "shop-1", "librdkafka", "2.6.0", "10.0.0.9", 4711, "User:ann")


def test_a_client_is_asked_for_the_metrics_of_all_subscriptions_that_it_matches() -> None:
    found = subscriptions_of(
        {
            "b": {"metrics": "org.a,org.b", "interval.ms": "5000", "match": "client_id=shop-.*"},
            "a": {"metrics": "org.a,org.c", "interval.ms": "900"},
            "other": {"metrics": "*", "interval.ms": "100", "match": "client_id=shop,client_source_port=1"},
        }
    )
    wanted = wanted_of(found, CLIENT, ID)
    assert (wanted.metrics, wanted.interval_ms) == (("org.a", "org.b", "org.c"), 900)
    assert wanted.subscriptions == ("a", "b")


def test_a_client_that_matches_nothing_is_asked_for_nothing() -> None:
    wanted = wanted_of((), CLIENT, ID)
    assert (wanted.metrics, wanted.interval_ms, wanted.subscriptions) == ((), 300_000, ())


def test_a_star_stands_for_everything() -> None:
    found = subscriptions_of({"a": {"metrics": "org.a"}, "b": {"metrics": "*"}})
    assert wanted_of(found, CLIENT, ID).metrics == ("*",)


@pytest.mark.parametrize(
    "selector",
    [
        "client_instance_id=A+",
        "client_id=shop-[0-9]",
        "client_software_name=librdkafka",
        r"client_software_version=2\.[0-9.]*",
        r"client_source_address=10\.0\.[0-9.]*",
        "client_source_port=4711",
    ],
)
def test_a_client_is_found_by_each_of_its_properties_and_only_as_a_whole(selector: str) -> None:
    (found,) = subscriptions_of({"s": {"metrics": "*", "match": selector}})
    assert found.matches(CLIENT.texts())
    name, _, _ = selector.partition("=")
    assert not found.matches({**CLIENT.texts(), name: CLIENT.texts()[name] + "!"})


def test_the_id_follows_from_metrics_interval_and_client() -> None:
    def number(instance_id: UUID = ID, **settings: str) -> int:
        texts = {name.replace("_", "."): value for name, value in settings.items()}
        return wanted_of(subscriptions_of({"s": texts}), CLIENT, instance_id).subscription_id

    ids = [number(metrics="a"), number(metrics="b"), number(metrics="a", interval_ms="100")]
    assert len({*ids, number(UUID(int=8), metrics="a")}) == 4
    assert number(metrics="a,b") == number(metrics="b,a")
    assert all(-(2**31) <= each < 2**31 for each in ids)


def test_a_subscription_that_this_version_cannot_use_is_left_out() -> None:
    assert subscriptions_of({"new": {"metrics": "*", "colour": "red"}, "bad": {"match": "client_id=("}}) == ()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"interval.ms": "99"}, "interval.ms cannot be '99'"),
        ({"interval.ms": "3600001"}, "interval.ms cannot be"),
        ({"match": "client=a"}, "match cannot be 'client=a'"),
        ({"match": "client_id="}, "match cannot be"),
        ({"colour": "red"}, "There is no setting 'colour'"),
    ],
)
def test_a_wrong_setting_is_refused_in_words(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match="^" + sentence.replace("(", r"\(")):
        ClientMetricsConfig.from_texts(settings)


def test_a_wrong_pattern_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match="the regular expression is wrong"):
        ClientMetricsConfig.from_texts({"match": "client_id=("}).patterns()
