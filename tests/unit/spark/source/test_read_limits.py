"""Limits of a batch, and the Spark that knows none."""

import pytest

from ottla.spark.option_values import OptionError
from ottla.spark.source.plan.options import source_options
from ottla.spark.source.read_limits import check_limits

ADDRESS = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_a_spark_without_limits_refuses_the_options_that_set_one(name: str) -> None:
    options = source_options({**ADDRESS, name: "10"})
    check_limits(options, are_known=True)
    with pytest.raises(OptionError, match=f"Option '{name}' needs Spark 4.2 or newer"):
        check_limits(options, are_known=False)


def test_without_such_options_nothing_is_refused() -> None:
    check_limits(source_options(ADDRESS), are_known=False)
