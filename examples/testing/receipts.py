"""What the till decides, without any Kafka in it: what an order costs."""

from __future__ import annotations

import json

PRICES = {"coffee": 3, "tea": 2, "cake": 4}


def receipt_for(order: bytes) -> bytes:
    """The receipt for an order: `{"items": ["tea", "cake"]}` becomes `{"items": ["tea", "cake"], "total":
    6}`.
    """
    items = json.loads(order)["items"]
    return json.dumps({"items": items, "total": sum(PRICES[item] for item in items)}).encode()
