"""The clients in one file: create a topic, write to it, read it back. Run it beside a broker (`ottla serve`).

python examples/clients.py localhost:9092
"""

from __future__ import annotations

import asyncio
import sys

import ottla


async def prepare(bootstrap_servers: str, topic: str) -> None:
    """Create the topic, unless it is there."""
    async with ottla.Admin(bootstrap_servers) as admin:
        outcome = (await admin.create_topics([ottla.NewTopic(topic, partitions=3)]))[topic]
        if isinstance(outcome, ottla.KafkaError) and outcome.code != ottla.ErrorCode.TOPIC_ALREADY_EXISTS:
            raise outcome


async def write(bootstrap_servers: str, topic: str, count: int) -> int:
    """Send one order and wait for it, then many without waiting for each; how many were delivered."""
    async with ottla.Producer(bootstrap_servers, value_serializer=ottla.serialize_json) as producer:
        report = await producer.send(topic, {"drink": "coffee"}, key="table 4")
        print(f"the first order is in partition {report.partition}, at offset {report.offset}")
        for number in range(1, count):
            producer.send_soon(topic, {"drink": "tea", "number": number}, key=f"table {number % 7}")
            await producer.drain()
        try:
            await producer.flush()
        except ottla.DeliveryError as error:
            print(f"{len(error.records)} orders were not delivered: {error.message}")
            return count - len(error.records)
    return count


async def read(bootstrap_servers: str, topic: str, count: int) -> int:
    """Read as many orders as were written."""
    seen = 0
    consumer = ottla.Consumer(bootstrap_servers, group_id="kitchen", auto_offset_reset="earliest")
    async with consumer:
        consumer.subscribe([topic])
        async for record in consumer:
            if record.value is not None:
                ottla.deserialize_json(record.value)
            seen += 1
            if seen == count:
                break
    return seen


async def main(bootstrap_servers: str, topic: str = "orders", count: int = 1_000) -> None:
    await prepare(bootstrap_servers, topic)
    delivered = await write(bootstrap_servers, topic, count)
    seen = await read(bootstrap_servers, topic, delivered)
    print(f"{delivered} orders were delivered, {seen} were read")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
