"""A network of namespaces: broker N has the address 10.91.N.2, clients have 10.91.0.2, and a router forwards
between them.

Faults are rules of the router: packets from one address to another are dropped, all of them or some. The
kernel's TCP sees what it sees in a real network: no reset, no refusal, only silence and retransmission.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Final

from tests.chaos.machines.commands import system

CLIENTS: Final = 0  # the number of the clients' own network


class Network:
    """The namespaces of one run."""

    def __init__(self) -> None:
        self._name = f"ottla{os.getpid()}"
        self._rules: list[tuple[int, str]] = []  # the broker a rule was made for, and the rule

    @property
    def _router(self) -> str:
        return f"{self._name}r"

    def namespace(self, number: int) -> str:
        return f"{self._name}n{number}"

    @contextlib.contextmanager
    def running(self, brokers: Sequence[int]) -> Iterator[None]:
        """Make the network for the length of a block."""
        made = [self._router, *map(self.namespace, brokers)]
        try:
            for name in made:
                system("ip", "netns", "add", name)
            system("ip", "netns", "exec", self._router, "sysctl", "-q", "net.ipv4.ip_forward=1")
            self._connect(CLIENTS, None)
            system("ip", "route", "add", "10.91.0.0/16", "via", "10.91.0.1")
            for number in brokers:
                self._connect(number, self.namespace(number))
                system("ip", "-n", self.namespace(number), "link", "set", "lo", "up")
                system(
                    "ip", "-n", self.namespace(number), "route", "add", "default", "via", f"10.91.{number}.1"
                )
            yield
        finally:
            for name in made:
                with contextlib.suppress(OSError):
                    system("ip", "netns", "delete", name)

    def _connect(self, number: int, namespace: str | None) -> None:
        """A cable from the router to a namespace, or to the one of this process."""
        near, far = f"{self._name}v{number}", f"ottla{number}"
        system("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", self._router)
        where = ["-n", namespace] if namespace else []
        if namespace:
            system("ip", "link", "set", near, "netns", namespace)
        system("ip", *where, "address", "add", f"10.91.{number}.2/24", "dev", near)
        system("ip", *where, "link", "set", near, "up")
        system("ip", "-n", self._router, "address", "add", f"10.91.{number}.1/24", "dev", far)
        system("ip", "-n", self._router, "link", "set", far, "up")

    def drop(self, source: int, target: int) -> None:
        """Lose everything from one to the other; the way back stays open."""
        self._add(source, f"ip saddr {address(source)} ip daddr {address(target)} drop")

    def lose(self, number: int, percent: int) -> None:
        """Lose some of the packets from and to a broker."""
        for side in ("saddr", "daddr"):
            self._add(number, f"ip {side} {address(number)} numgen random mod 100 < {percent} drop")

    def reset(self, number: int) -> None:
        """Answer packets from and to a broker with a TCP reset, until healed."""
        for side in ("saddr", "daddr"):
            self._add(number, f"ip {side} {address(number)} tcp flags & rst != rst reject with tcp reset")

    def heal(self, number: int | None = None) -> None:
        """Lift all rules, or those made for one broker."""
        self._rules = [] if number is None else [rule for rule in self._rules if rule[0] != number]
        self._write()

    @property
    def faults(self) -> list[str]:
        return [words for _, words in self._rules]

    def _add(self, number: int, rule: str) -> None:
        self._rules.append((number, rule))
        self._write()

    def _write(self) -> None:
        chain = "\n".join(["type filter hook forward priority 0; policy accept;", *self.faults])
        table = f"table ip faults {{\nchain forward {{\n{chain}\n}}\n}}"
        rules = f"table ip faults {{}}\ndelete table ip faults\n{table}\n"
        system("ip", "netns", "exec", self._router, "nft", "-f", "-", stdin=rules)


def address(number: int) -> str:
    return f"10.91.{number}.2"
