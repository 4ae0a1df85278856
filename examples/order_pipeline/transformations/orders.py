"""From the topic `orders` to tables: every record as it came, the good ones, revenue per window; the bad ones
go to `orders.dead`.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from ottla.spark import steps

spark = SparkSession.active()

TOPIC = "orders"
DEAD_LETTER_TOPIC = "orders.dead"
SCHEMA = """
    order_id STRING NOT NULL,
    customer STRING NOT NULL,
    country STRING,
    placed_at TIMESTAMP NOT NULL,
    items INT,
    amount DOUBLE NOT NULL
"""
# How far apart two copies of an order may come, and how late an order may be for its window.
COPIES = "1 minute"
LATE = "10 seconds"
WINDOW = "10 seconds"


@dp.table(
    comment="Every record as it came; `ottla audit orders tables/raw_orders` checks that each is there once."
)
def raw_orders() -> DataFrame:
    return steps.read_topic(spark, TOPIC).select("key", "value", "topic", "partition", "offset", "timestamp")


@dp.temporary_view(comment="Each record with its fields in `parsed`, or with the reason why it has none.")
def judged_orders() -> DataFrame:
    records = steps.parse_json(steps.read_table(spark, "raw_orders"), SCHEMA)
    return steps.require(records, {"the amount is not positive": "parsed.amount > 0"})


@dp.temporary_view
def valid_orders() -> DataFrame:
    return steps.valid(steps.read_table(spark, "judged_orders"))


@dp.table(comment="The good orders, each once.")
def orders() -> DataFrame:
    arrived = steps.read_table(spark, "valid_orders", watermark=("timestamp", COPIES))
    return steps.deduplicate(arrived, "order_id", time="timestamp", late=None)


@dp.table(comment="Revenue per country and window, written when a window is over.")
def revenue() -> DataFrame:
    placed = steps.read_table(spark, "orders", watermark=("placed_at", LATE))
    sums = {"orders": "count(*)", "revenue": "round(sum(amount), 2)"}
    return steps.windowed(placed, sums, time="placed_at", every=WINDOW, late=None, by="country")


dp.create_sink("dead_letter_topic", "ottla", steps.topic_sink(spark, DEAD_LETTER_TOPIC))


@dp.append_flow(target="dead_letter_topic", name="dead_letters")
def dead_letters() -> DataFrame:
    return steps.dead_letters(steps.read_table(spark, "judged_orders"))
