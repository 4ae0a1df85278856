"""Steps of a pipeline: plain functions from DataFrames to DataFrames, for classic sessions and for Spark
Connect.

    from ottla.spark import steps

    orders = steps.parse_json(steps.read_topic(spark, "orders"), "order_id STRING NOT NULL, amount DOUBLE")
    good, bad = steps.split(orders)

Nothing here looks at a DataFrame's columns or rows: in a pipeline Spark allows that only later. Nor is there
a `withColumn`: over Spark Connect it looks up tables at once, and Spark forgets that a flow must wait for
them (pipelines/order.py).
"""

from ottla.spark.steps.arguments import StepError
from ottla.spark.steps.avro_values import parse_avro
from ottla.spark.steps.dead_letters import dead_letters, redrive, split, valid
from ottla.spark.steps.json_values import parse_json, require
from ottla.spark.steps.origins import with_origin
from ottla.spark.steps.registry_values import encode_by_registry, parse_by_registry
from ottla.spark.steps.replays import backfill
from ottla.spark.steps.topics import read_range, read_table, read_topic, topic_sink
from ottla.spark.steps.upserts import latest, upsert
from ottla.spark.steps.windows import deduplicate, join_streams, join_table, windowed

__all__ = [
    "StepError",
    "backfill",
    "dead_letters",
    "deduplicate",
    "encode_by_registry",
    "join_streams",
    "join_table",
    "latest",
    "parse_avro",
    "parse_by_registry",
    "parse_json",
    "read_range",
    "read_table",
    "read_topic",
    "redrive",
    "require",
    "split",
    "topic_sink",
    "upsert",
    "valid",
    "windowed",
    "with_origin",
]
