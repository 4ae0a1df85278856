"""The end-to-end scenarios of docs/requirements.md that need one broker and no groups (CHK-1, CHK-6)."""

from __future__ import annotations

import json

from tests.clients.catalogue import Family, families
from tests.clients.conftest import MakeTopic
from tests.clients.model import Client, Message, Received
from tests.clients.raw import stored_batches

from ottla.localcluster.broker_process import BrokerProcess


def read_all(reference: Client, topic: str, partitions: int) -> dict[int, list[Received]]:
    """Every record of every partition, read to the log end."""
    ends = {partition: reference.list_offset(topic, partition, "latest") for partition in range(partitions)}
    return {
        partition: reference.consume(topic, end, partition=partition, start=0)
        for partition, end in ends.items()
    }


@families()
def test_chk_1_keys_keep_their_partition_offsets_are_sequential_and_the_log_end_is_the_count(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    keyed = [Message(f"keyed {n}".encode(), f"user-{n % 7}".encode()) for n in range(70)]
    unkeyed = [Message(f"unkeyed {n}".encode()) for n in range(30)]
    client.produce(topic, keyed, partition=None)
    client.produce(topic, unkeyed, partition=None)
    records = read_all(reference, topic, 3)
    for partition in records.values():
        assert [record.offset for record in partition] == list(range(len(partition)))
    homes = {
        (record.key, p) for p, partition in records.items() for record in partition if record.key is not None
    }
    assert len(homes) == 7
    values = [record.value for partition in records.values() for record in partition]
    assert sorted(v for v in values if v) == sorted(m.value for m in keyed + unkeyed if m.value)
    assert sum(reference.list_offset(topic, partition, "latest") for partition in range(3)) == 100


@families()
def test_chk_6_repetitive_json_with_gzip_takes_a_fraction_of_its_size_on_disk(
    client: Client, family: Family, reference: Client, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    orders = [
        json.dumps(
            {"order": n, "customer": f"customer-{n % 50}", "currency": "EUR", "status": "accepted"}
        ).encode()
        for n in range(2000)
    ]
    client.produce(topic, [Message(order) for order in orders], codec="gzip")
    on_disk = sum(file.stat().st_size for file in (broker.data / f"{topic}-0").glob("*.log"))
    assert on_disk == sum(batch.size_bytes for batch in stored_batches(broker.bootstrap, topic))
    assert on_disk < 0.2 * sum(len(order) for order in orders)
    assert [record.value for record in reference.consume(topic, len(orders), start=0)] == orders
