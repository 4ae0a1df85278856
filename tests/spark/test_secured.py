"""Spark against a broker with logins: source, stream, sink and audit log in, and no secret is written anywhere
(OPS-5).
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.identity_provider import CLIENT_ID, CLIENT_SECRET, identity_provider

import ottla.blocking
import ottla.testing
from ottla.spark.audit.job import audit
from ottla.testing import EmbeddedBroker

PASSWORD = "Sesame-Open-4711"
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    f'username="alice" password="{PASSWORD}";'
)
VALUES = [f"record {number}" for number in range(10)]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(users={"alice": PASSWORD}) as running:
        running.create_topic("orders")
        running.create_topic("copy")
        with ottla.blocking.Producer(running.bootstrap, security=running.security("alice")) as producer:
            for value in VALUES:
                producer.send("orders", value)
        yield running


def options(broker: EmbeddedBroker, password: str = PASSWORD) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.bootstrap,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": JAAS.replace(PASSWORD, password),
    }


def explained(frame: object) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        frame.explain(extended=True)  # type: ignore[attr-defined]
        frame.explain(mode="formatted")  # type: ignore[attr-defined]
    return shown.getvalue()


def test_a_stream_from_topic_to_topic_and_an_audit_leave_no_secret(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ottla")
    stream = (
        spark.readStream.format("ottla")
        .options(**options(broker), subscribe="orders", startingOffsets="earliest")
        .load()
    )
    query = (
        stream.select("key", "value")
        .writeStream.format("ottla")
        .options(**options(broker), topic="copy", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        query.explain(extended=True)
    assert sorted(record.value.decode() for record in broker.records("copy") if record.value) == sorted(
        VALUES
    )

    batch = spark.read.format("ottla").options(**options(broker), subscribe="orders").load()
    rows = batch.select("partition", "offset")
    assert audit(spark, "orders", rows, bootstrap=broker.bootstrap, options=options(broker)).is_equal

    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in written
    progress = "".join(str(each) for each in query.recentProgress)
    everything = shown.getvalue() + explained(batch) + progress + caplog.text
    assert PASSWORD not in everything


def test_a_wrong_password_fails_the_query_in_words(spark: SparkSession, broker: EmbeddedBroker) -> None:
    frame = spark.read.format("ottla").options(**options(broker, "Wrong-1"), subscribe="orders").load()
    with pytest.raises(PySparkException) as refused:
        frame.count()
    assert "Authentication failed due to invalid credentials" in str(refused.value)
    assert "Wrong-1" not in str(refused.value)


def test_a_batch_is_read_with_a_token_of_an_identity_provider(spark: SparkSession) -> None:
    with identity_provider() as provider:
        settings = {
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        }
        with ottla.testing.broker(users={"alice": PASSWORD}, settings=settings) as running:
            running.create_topic("orders")
            with ottla.blocking.Producer(running.bootstrap, security=running.security("alice")) as producer:
                producer.send("orders", b"one")
            frame = (
                spark.read.format("ottla")
                .option("kafka.bootstrap.servers", running.bootstrap)
                .option("kafka.security.protocol", "SASL_PLAINTEXT")
                .option("kafka.sasl.mechanism", "OAUTHBEARER")
                .option("kafka.sasl.oauthbearer.token.endpoint.url", provider.token_url)
                .option("kafka.sasl.oauthbearer.client.credentials.client.id", CLIENT_ID)
                .option("kafka.sasl.oauthbearer.client.credentials.client.secret", CLIENT_SECRET)
                .option("subscribe", "orders")
                .load()
            )
            assert [bytes(row.value) for row in frame.collect()] == [b"one"]
            assert CLIENT_SECRET not in explained(frame)


PIPELINE = """
from pyspark import pipelines as dp

from ottla.spark import steps

dp.create_sink("copies", "ottla", steps.topic_sink(spark, "pipeline-copy"))


@dp.append_flow(target="copies")
def copy():
    return steps.read_topic(spark, "orders").select("key", "value")
"""
PROJECT = """
name: copying
storage: storage
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.ottla.bootstrap.servers: nowhere:1
"""


def ottla_pipeline(project: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.cli.main", "pipeline", arguments[0], str(project), *arguments[1:]]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(home)}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=360, env=environment, cwd=home, check=False
    )


@pytest.mark.compat  # half a minute of Spark
@pytest.mark.timeout(400)
def test_a_pipeline_logs_in_with_a_file_or_a_profile_and_writes_no_secret(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """The login comes from the command line: it stands in no file of the project, before or after."""
    project = tmp_path / "copying"
    (project / "transformations").mkdir(parents=True)
    (project / "transformations" / "copy.py").write_text(PIPELINE)
    (project / "spark-pipeline.yml").write_text(PROJECT)
    (tmp_path / "ottla").mkdir()
    properties = {name.removeprefix("kafka."): value for name, value in options(broker).items()}
    (tmp_path / "ottla" / "alice.properties").write_text(
        "".join(f"{name}={value}\n" for name, value in properties.items())
    )
    broker.create_topic("pipeline-copy")

    ran = ottla_pipeline(project, tmp_path, "run", "--config", "ottla/alice.properties")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    copied = [record.value.decode() for record in broker.records("pipeline-copy") if record.value]
    assert sorted(copied) == sorted(VALUES)

    shown = ottla_pipeline(project, tmp_path, "status", "--json", "--profile", "alice")
    assert [flow["lag"] for flow in json.loads(shown.stdout)["flows"]] == [0], shown.stderr
    refused = ottla_pipeline(project, tmp_path, "status", "--json", "--bootstrap", broker.bootstrap)
    assert "Lag is unknown" in refused.stderr

    written = b"".join(path.read_bytes() for path in project.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in written
    assert PASSWORD not in ran.stdout + ran.stderr + shown.stdout
