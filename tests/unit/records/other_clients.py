"""The record codecs of two other clients, to be held against ours."""

import warnings

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function that Python 3.11 calls deprecated: its business, not
    # ours.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder

from ottla.records.record import Record

__all__ = [
    "AiokafkaBatch",
    "AiokafkaBuilder",
    "KafkaPythonBatch",
    "KafkaPythonBuilder",
    "as_aiokafka_takes_it",
]


def as_aiokafka_takes_it(record: Record) -> Record:
    """aiokafka knows no time before 1970 (it takes -1 for none) and no header without a value."""
    headers = tuple((name, value or b"") for name, value in record.headers)
    return record._replace(timestamp=max(0, record.timestamp), headers=headers)
