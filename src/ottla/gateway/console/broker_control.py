"""The brokers of a local cluster, which whoever started the gateway can start and stop."""

from __future__ import annotations

from typing import Protocol


class BrokerControl(Protocol):
    """Commands for brokers that are processes on this machine (`ottla cluster up --gateway`)."""

    @property
    def data(self) -> str:
        """The directory of the cluster, for command lines."""

    async def conditions(self) -> dict[int, str]:
        """The condition of every broker by its id: running, stopped, and so on."""

    async def command(self, verb: str, broker: int) -> str:
        """Carry out start, stop, kill, pause or resume; returns what came of it. Raises ValueError with a sentence."""
