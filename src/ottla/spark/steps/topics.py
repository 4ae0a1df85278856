"""Topics and tables as beginnings of a flow, topics as its end.

Inside a pipeline the brokers' address comes from the project (`spark.ottla.bootstrap.servers`, or
`--bootstrap`), the login from `--config` or `--profile`, and each flow commits its progress to a group named `<pipeline>.<flow>`, so that `ottla groups
describe` shows its lag. Elsewhere both are arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.spark.pipelines.context import TopicRead, current_flow, current_login
from ottla.spark.sink.options import AUTO
from ottla.spark.steps.arguments import StepError, duration, name, quoted
from ottla.spark.steps.positions import Position, position_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTING: Final = "spark.ottla.bootstrap.servers"
_ADDRESS: Final = "kafka.bootstrap.servers"
# Otherwise rows of attempts that Spark repeated would be read from topics that a pipeline has written.
_ISOLATION: Final = "kafka.isolation.level"
_COMMITTED: Final = "read_committed"


def read_topic(
    spark: SparkSession,
    topic: str,
    *,
    bootstrap_servers: str | None = None,
    group: str | None = None,
    start: Position = "earliest",
    headers: bool = False,
    **options: str,
) -> DataFrame:
    """A topic as a stream, with the columns of Spark's Kafka source: key, value, topic, partition, offset,
    timestamp, timestampType.

    It begins at `start` where there is no checkpoint yet: the earliest record, unless told otherwise.
    `headers=True` adds the column headers; `options` are the source's (`maxOffsetsPerTrigger="10000"`). Records
    of transactions are read when they are committed, unless `kafka.isolation.level` says otherwise.
    """
    flow = current_flow()
    if flow is not None and flow.since is not None:
        start = flow.since
    settings = {
        **_brokers(spark, bootstrap_servers),
        "subscribe": name("topic", topic),
        _ISOLATION: _COMMITTED,
        **position_options("start", "starting", start, topic),
        **({"includeHeaders": "true"} if headers else {}),
    }
    if start != "earliest" and start != "latest" and not isinstance(start, dict):
        settings["startingOffsetsByTimestampStrategy"] = "latest"  # nothing is younger: begin with what comes
    group = group or (f"{flow.pipeline}.{flow.flow}" if flow else None)
    if group:
        settings["groupId"] = group
    if flow is not None:
        flow.reads.append(TopicRead(topic, group or ""))
    return spark.readStream.format("ottla").options(**{**settings, **options}).load()


def read_range(
    spark: SparkSession,
    topic: str,
    *,
    since: Position = "earliest",
    until: Position = "latest",
    bootstrap_servers: str | None = None,
    headers: bool = False,
    **options: str,
) -> DataFrame:
    """A range of a topic as a table, for a replay or a backfill: from `since` up to, and without, `until`.

    The range is fixed when it is first used; make a new one to see records that came later.
    """
    settings = {
        **_brokers(spark, bootstrap_servers),
        "subscribe": name("topic", topic),
        _ISOLATION: _COMMITTED,
        **position_options("since", "starting", since, topic),
        **position_options("until", "ending", until, topic),
        **({"includeHeaders": "true"} if headers else {}),
    }
    return spark.read.format("ottla").options(**{**settings, **options}).load()


def read_table(spark: SparkSession, table: str, *, watermark: tuple[str, str] | None = None) -> DataFrame:
    """A streaming table of this pipeline as a stream.

    `watermark` is a column and how late rows may come, as `("ordered_at", "1 minute")`. Spark's own
    `withWatermark` cannot be used on a pipeline's own table: it looks at the table at once, and while
    definitions are read there is none.
    """
    source = f"STREAM({quoted(name('table', table))})"
    if watermark is None:
        return spark.sql(f"SELECT * FROM {source}")
    if not isinstance(watermark, tuple) or len(watermark) != 2:
        raise StepError(
            f"watermark is {watermark!r}, but takes a column and a duration, as ('ordered_at', '1 minute')."
        )
    column, late = name("watermark", watermark[0]), duration("watermark", watermark[1])
    return spark.sql(f"SELECT * FROM {source} WATERMARK {quoted(column)} DELAY OF INTERVAL {late}")


def topic_sink(
    spark: SparkSession, topic: str, *, bootstrap_servers: str | None = None, **options: str
) -> dict[str, str]:
    """The options of a sink that writes to a topic: `dp.create_sink("dead", "ottla", steps.topic_sink(spark,
    "orders.dead"))`. On Ottla each row is written exactly once, on other brokers at least once;
    `delivery="exactly-once"` and `delivery="at-least-once"` decide otherwise.
    """
    settings = {**_brokers(spark, bootstrap_servers), "topic": name("topic", topic)}
    return {**settings, "delivery": AUTO, **options}


def _brokers(spark: SparkSession, given: str | None) -> dict[str, str]:
    """The options that say where the brokers are, and how they are reached. A login of the pipeline's own cluster is
    shown to no other.
    """
    login = {} if given else {f"kafka.{name}": value for name, value in current_login().items()}
    return {_ADDRESS: _address(spark, given), **login}


def _address(spark: SparkSession, given: str | None) -> str:
    flow = current_flow()
    address = given or (flow.bootstrap_servers if flow else None) or _configured(spark)
    if not address:
        raise StepError(
            f"bootstrap_servers is missing: give it, or set {_SETTING}, for example to 'localhost:9092'."
        )
    return address


def _configured(spark: SparkSession) -> str | None:
    return spark.conf.get(_SETTING, None)
