"""The hash of two other clients, to be held against ours."""

import warnings

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function that Python 3.11 calls deprecated: its business, not
    # ours.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from aiokafka.partitioner import murmur2 as murmur2_of_aiokafka

__all__ = ["murmur2_of_aiokafka", "murmur2_of_kafka_python"]
