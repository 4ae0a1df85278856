"""Why a partition has no leader, or a replica is not used, and the command that decides: the same sentences wherever one
is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.model import TopicPartition


def recover_command(partition: TopicPartition) -> str:
    """The command that shows what can be done for a partition without a leader, and does it with --yes."""
    return f"ottla cluster recover --bootstrap HOST:PORT --topic {partition.topic} --partition {partition.partition}"


def reason_without_leader(partition: TopicPartition, isr: Sequence[int], offline: Sequence[int]) -> str:
    """Why a partition has no leader, who is waited for, and the command that decides.

    A partition whose ISR is not empty waits for a member of the ISR. A partition whose ISR is empty may have
    eligible leader replicas among the brokers that are down. If no broker is down, an operator has to decide.
    """
    if isr:
        return (
            f"{partition} waits for a replica that holds every acknowledged record: start {brokers(isr)}. "
            f"If that cannot be: {recover_command(partition)}"
        )
    if offline:
        return (
            f"{partition} waits because each live replica may miss acknowledged records: start {brokers(offline)}. "
            f"If that cannot be, or does not help: {recover_command(partition)}"
        )
    return (
        f"{partition} waits for you: each replica may miss acknowledged records. What each of them has, and how to "
        f"go on with one of them: {recover_command(partition)}"
    )


def damaged_replicas(node_ids: Sequence[int]) -> tuple[str, str]:
    """What is wrong with replicas that are offline on brokers that run, and what to do."""
    return (
        f"the replica on {brokers(node_ids, 'and')} has records that cannot be read, and is not used",
        "The broker fetches them again from the leader and keeps the damaged segment beside the log, in a file with "
        "quarantine in its name. If that takes long, read its log, and look at its disk.",
    )


def brokers(node_ids: Sequence[int], conjunction: str = "or") -> str:
    """Brokers in a sentence: broker 1, broker 2 or broker 3."""
    names = [f"broker {node_id}" for node_id in node_ids]
    return f" {conjunction} ".join(filter(None, (", ".join(names[:-1]), names[-1])))
