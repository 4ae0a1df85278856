"""The till with Ottla's own clients: reads orders, writes receipts."""

from __future__ import annotations

from examples.testing.receipts import receipt_for

import ottla


async def run_till(bootstrap: str, orders: int) -> None:
    """Write a receipt for each order, until there have been so many."""
    async with (
        ottla.Producer(bootstrap) as producer,
        ottla.Consumer(
            bootstrap, group_id="till", auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer,
    ):
        consumer.subscribe(["orders"])
        async for order in consumer:
            await producer.send("receipts", receipt_for(order.value or b""), order.key)
            await consumer.commit()
            orders -= 1
            if not orders:
                break
