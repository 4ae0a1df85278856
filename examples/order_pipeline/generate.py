"""Sends orders to the topic `orders`, some of them bad, late or twice: python generate.py [HOST:PORT]
[COUNT]
"""

import json
import os
import random
import sys
from datetime import UTC, datetime, timedelta

import ottla
from ottla.blocking import Admin, Producer

BOOTSTRAP = os.environ.get("OTTLA_BOOTSTRAP", "localhost:9092")
COUNTRIES = ("AT", "CZ", "DE", "FR", "IT")


def order(number: int, dice: random.Random) -> dict[str, object]:
    """One order, placed now."""
    late = timedelta(minutes=5) if dice.random() < 0.02 else timedelta(0)
    return {
        "order_id": f"o-{number:06}",
        "customer": f"c-{dice.randrange(50):03}",
        "country": dice.choice(COUNTRIES),
        "placed_at": (datetime.now(UTC) - late).isoformat(timespec="milliseconds"),
        "items": dice.randint(1, 5),
        "amount": round(dice.uniform(5, 200), 2),
    }


def spoilt(good: dict[str, object], dice: random.Random) -> str:
    """A record that the pipeline refuses."""
    without_amount = {name: value for name, value in good.items() if name != "amount"}
    return dice.choice(
        (
            "this is not JSON",
            json.dumps(without_amount),
            json.dumps({**good, "amount": -1.0}),
            json.dumps({**good, "amount": "many"}),
        )
    )


def main(bootstrap: str = BOOTSTRAP, count: str = "1000") -> None:
    """Make the topics if they are not there, and send orders."""
    dice = random.Random()
    with Admin(bootstrap) as admin:
        admin.create_topics([ottla.NewTopic("orders", partitions=3), ottla.NewTopic("orders.dead")])
    with Producer(bootstrap) as producer:
        for _ in range(int(count)):
            good = order(dice.randrange(1_000_000), dice)
            value = spoilt(good, dice) if dice.random() < 0.05 else json.dumps(good)
            for _ in range(2 if dice.random() < 0.02 else 1):
                producer.send_soon("orders", value, key=str(good["customer"]))
        producer.flush()
    print(f"sent {count} orders to {bootstrap}")


if __name__ == "__main__":
    main(*sys.argv[1:])
