"""The clients for scripts and notebooks: the same calls, without `async` and `await`.

    with ottla.blocking.Producer("localhost:9092") as producer:
        producer.send("orders", "one coffee", key="table 4")

facade           makes a blocking class from an asyncio class
loop_thread      an event loop in a thread of its own
stub             writes `__init__.pyi`, the signatures for type checkers and editors

`Producer`, `Consumer` and `Admin` are made from the asyncio classes of the same names.
`docs/generators/blocking_stub.py` writes `__init__.pyi`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_CLIENTS = {
    "Admin": "ottla.client.admin.admin",
    "Consumer": "ottla.client.consumer.consumer",
    "Producer": "ottla.client.producer.producer",
}

__all__ = ["Admin", "Consumer", "Delivery", "Producer"]


def __getattr__(name: str) -> Any:
    if name == "Delivery":
        from ottla.blocking.facade import Waited

        return Waited
    if name not in _CLIENTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ottla.blocking.facade import blocking_class

    made = blocking_class(getattr(import_module(_CLIENTS[name]), name))
    globals()[name] = made  # the next access finds it at once
    return made


def __dir__() -> list[str]:
    return __all__
