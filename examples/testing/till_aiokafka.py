"""The till with aiokafka: reads orders, writes receipts."""

from __future__ import annotations

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from examples.testing.receipts import receipt_for


async def run_till(bootstrap: str, orders: int) -> None:
    """Write a receipt for each order, until there have been so many."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="till",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with producer, consumer:
        async for order in consumer:
            await producer.send_and_wait("receipts", receipt_for(order.value), order.key)
            await consumer.commit()
            orders -= 1
            if not orders:
                break
