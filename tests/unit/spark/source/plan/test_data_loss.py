"""Data loss is an error or a warning, with an explanation."""

import logging

import pytest

from ottla.spark.source.plan.data_loss import DataLossError, report_data_loss


def test_it_fails_and_says_what_to_do() -> None:
    with pytest.raises(
        DataLossError, match=r"^Some data may have been lost: a-0 is gone\. .*'failOnDataLoss' to false"
    ):
        report_data_loss("a-0 is gone.", fail=True)


def test_it_warns_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        report_data_loss("a-0 is gone.", fail=False)
    assert "goes on without them: a-0 is gone." in caplog.text
