"""The till with confluent-kafka, which does not know asyncio: reads orders, writes receipts."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, Producer
from examples.testing.receipts import receipt_for


def run_till(bootstrap: str, orders: int) -> None:
    """Write a receipt for each order, until there have been so many."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "till",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    try:
        while orders:
            order = consumer.poll(1.0)
            if order is None:
                continue
            if order.error():
                raise KafkaException(order.error())
            producer.produce("receipts", receipt_for(order.value()), order.key())
            producer.flush()
            consumer.commit(order, asynchronous=False)
            orders -= 1
    finally:
        consumer.close()
