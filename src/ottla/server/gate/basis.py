"""What remembered decisions rest on.

Recognising a request that repeats an earlier one saves decoding it, finding its topic and, one day, asking whether its principal
may. Such a decision is remembered together with the versions of everything it was made from, and forgotten when one of them
changes. Facts that change often (leadership, in-sync replicas, settings) are not remembered: they are asked each time.
"""

from typing import NamedTuple

from ottla.server.gate.services import Services
from ottla.server.gate.session import Session


class Basis(NamedTuple):
    """The versions of what a decision was made from. Decisions with another basis than today's are void.

    Authorisation and quotas join here, each with a version of its own: the session's principal (it changes when a client
    authenticates again), the ACLs, the client quotas.
    """

    partitions: int


def basis_of(services: Services, session: Session) -> Basis:
    """What a decision for this session rests on now."""
    return Basis(services.partitions.version)
