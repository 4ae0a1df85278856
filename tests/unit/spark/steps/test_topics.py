"""Steps that reach topics: the pipeline's brokers with the pipeline's login, other brokers without it."""

from __future__ import annotations

from typing import Any, cast

from ottla.spark.pipelines.context import logging_in
from ottla.spark.steps.topics import topic_sink

LOGIN = {"security.protocol": "SASL_SSL", "sasl.password": "Sesame-1"}


class Configured:
    """A session of Spark's with one setting."""

    @property
    def conf(self) -> dict[str, str]:
        return {"spark.ottla.bootstrap.servers": "here:9092"}


SPARK = cast(Any, Configured())


def test_in_a_pipeline_a_step_logs_in_as_the_command_says() -> None:
    with logging_in(LOGIN):
        options = topic_sink(SPARK, "copies")
    assert options["kafka.bootstrap.servers"] == "here:9092"
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.password"] == "Sesame-1"
    assert "kafka.sasl.password" not in topic_sink(SPARK, "copies")


def test_a_step_for_another_cluster_is_not_given_the_login() -> None:
    with logging_in(LOGIN):
        options = topic_sink(SPARK, "copies", bootstrap_servers="elsewhere:9092")
    assert options["kafka.bootstrap.servers"] == "elsewhere:9092"
    assert not [name for name in options if "sasl" in name or "security" in name]


def test_an_option_of_the_step_comes_before_that_of_the_command() -> None:
    with logging_in(LOGIN):
        options = topic_sink(SPARK, "copies", **{"kafka.sasl.password": "Other-2"})
    assert options["kafka.sasl.password"] == "Other-2"
