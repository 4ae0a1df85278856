"""AddPartitionsToTxn between brokers, versions 4 and 5, in the words of the coordinator's commands."""

from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.protocol.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.transaction.commands import AddPartitions, VerifyPartitions
from ottla.transaction.metadata import EPOCH_PER_TRANSACTION


def add_partitions_request(command: AddPartitions | VerifyPartitions) -> AddPartitionsToTxnRequest:
    """A question about one transaction."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(command.partitions):
        topics.setdefault(topic, []).append(partition)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=command.transactional_id,
        producer_id=command.producer_id,
        producer_epoch=command.producer_epoch,
        verify_only=isinstance(command, VerifyPartitions),
        topics=[AddPartitionsToTxnTopic(name, numbers) for name, numbers in topics.items()],
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def command_in(transaction: AddPartitionsToTxnTransaction) -> AddPartitions | VerifyPartitions:
    """What a broker asks about one transaction."""
    identity = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    partitions = named_partitions(transaction.topics)
    if transaction.verify_only:
        return VerifyPartitions(*identity, partitions)
    return AddPartitions(*identity, partitions, EPOCH_PER_TRANSACTION)


def named_partitions(topics: list[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    """The partitions in a request."""
    return frozenset(
        TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions
    )


def errors_in(
    response: AddPartitionsToTxnResponse, command: AddPartitions | VerifyPartitions
) -> dict[TopicPartition, ErrorCode]:
    """The error of each partition that was asked about; one that is not mentioned has the response's error."""
    errors = {
        TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
        for result in response.results_by_transaction
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
    unsaid = ErrorCode(response.error_code) or ErrorCode.UNKNOWN_SERVER_ERROR
    return {partition: errors.get(partition, unsaid) for partition in command.partitions}


def topic_results(errors: dict[TopicPartition, ErrorCode]) -> list[AddPartitionsToTxnTopicResult]:
    """The errors of partitions, by topic."""
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, partition), error in sorted(errors.items()):
        topics.setdefault(topic, []).append(AddPartitionsToTxnPartitionResult(partition, error))
    return [AddPartitionsToTxnTopicResult(name, results) for name, results in topics.items()]
