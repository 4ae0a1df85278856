"""The basis of remembered decisions.

Recognising a request that repeats an earlier one saves decoding it, finding its topic and asking whether its
principal may. Such a decision is remembered together with the basis it was made on, and forgotten
when the basis changes. Facts that change often (leadership, in-sync replicas, settings) are not remembered:
they are asked each time.
"""

from ottla.server.gate.services import Services
from ottla.server.gate.session import Session


def basis_of(services: Services, session: Session) -> int:
    """A number that changes with everything that a decision for this session rests on.

    Asked once per read. Each fact has a version that only grows, so the sum of the versions changes whenever
    one of them does. The facts are which partitions are hosted and, where there is an authoriser, the ACLs. A
    session's principal never changes: a client that authenticates again must be the same (KIP-368).
    """
    version, rights = services.partitions.version, services.rights
    return version if rights is None else version + rights.version
