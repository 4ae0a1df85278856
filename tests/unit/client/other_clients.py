"""The consumer protocol and the assignors of two other clients, to be held against ours."""

import warnings

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function that Python 3.11 calls deprecated: its business, not
    # ours.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.coordinator.assignors.range import RangePartitionAssignor as KafkaPythonRange
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as KafkaPythonRoundRobin
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment as KafkaPythonAssignment
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription as KafkaPythonSubscription

from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AiokafkaRoundRobin
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment as AiokafkaAssignment
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata as AiokafkaSubscription

__all__ = [
    "AiokafkaAssignment",
    "AiokafkaRange",
    "AiokafkaRoundRobin",
    "AiokafkaSubscription",
    "KafkaPythonAssignment",
    "KafkaPythonRange",
    "KafkaPythonRoundRobin",
    "KafkaPythonSubscription",
]
