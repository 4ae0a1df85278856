"""Which batches a sink writes, skips and refuses, by the number that the topics have (PIPE-3)."""

from __future__ import annotations

import pytest

from ottla.client.sync.transaction_group import Progress
from ottla.spark.option_values import OptionError
from ottla.spark.sink.options import ExactlyOnce
from ottla.spark.sink.write_identity import SinkNameError, WriteIdentity, of_job, of_micro_batch

SEVENTH = WriteIdentity("ottla-sink-mill", 7, "query")


@pytest.mark.parametrize(
    ("stored", "is_written"), [(None, False), (Progress(6, "query"), False), (Progress(7, "query"), True)]
)
def test_a_batch_is_written_once(stored: Progress | None, is_written: bool) -> None:
    assert SEVENTH.is_written(stored) is is_written


def test_a_query_that_has_gone_back_is_refused() -> None:
    with pytest.raises(SinkNameError, match="its checkpoint is older than the topics"):
        SEVENTH.is_written(Progress(8, "query"))


@pytest.mark.parametrize("number", [6, 7, 8])
def test_the_name_of_another_query_is_refused(number: int) -> None:
    with pytest.raises(
        SinkNameError, match=r"belongs to the query other, .*ottla groups delete ottla-sink-mill"
    ):
        SEVENTH.is_written(Progress(number, "other"))


def test_a_job_has_a_number_if_the_user_gives_one() -> None:
    assert of_job(ExactlyOnce("mill", 7)) == WriteIdentity("ottla-sink-mill", 7)
    unnamed = of_job(ExactlyOnce())
    assert unnamed.progress is None
    assert unnamed.name != of_job(ExactlyOnce()).name
    assert not unnamed.is_written(Progress(1, ""))


@pytest.mark.parametrize("wish", [ExactlyOnce("mill"), ExactlyOnce(version=7)])
def test_a_number_and_a_name_belong_together(wish: ExactlyOnce) -> None:
    with pytest.raises(OptionError, match="together they name what is written"):
        of_job(wish)


def test_without_spark_there_is_no_batch() -> None:
    with pytest.raises(RuntimeError, match="did not tell the task its query"):
        of_micro_batch(ExactlyOnce())
