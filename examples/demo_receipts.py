"""A file that the demo adds to its pipeline: each order gets a receipt in the topic `receipts`, exactly once, with
headers that say which order it is for. `ottla audit orders topic:receipts` checks it.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from ottla.spark import steps

spark = SparkSession.active()

RECEIPT = "to_json(named_struct('is_valid', reason IS NULL, 'reason', reason, 'amount', parsed.amount))"

dp.create_sink("receipt_topic", "ottla", steps.topic_sink(spark, "receipts"))


@dp.append_flow(target="receipt_topic", name="receipts")
def receipts() -> DataFrame:
    return steps.with_origin(steps.read_table(spark, "judged_orders"), value=RECEIPT)
