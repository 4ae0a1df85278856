"""A set that is iterated in the order in which its members came.

The order of a built-in set depends on memory addresses and on the process's hash seed. Where the order has an
effect (the first waiter to wake, the first request to send), a simulation could not replay a run from its
seed.
"""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


class OrderedSet(dict[T, None]):
    """A dictionary without values."""

    __slots__ = ()

    def __init__(self, members: Iterable[T] = ()) -> None:
        super().__init__(dict.fromkeys(members))

    def add(self, member: T) -> None:
        self[member] = None

    def discard(self, member: T) -> None:
        self.pop(member, None)

    def without(self, others: Iterable[T]) -> "OrderedSet[T]":
        """The members that are not among others."""
        left = OrderedSet(self)
        for other in others:
            left.discard(other)
        return left
