"""Which gateway has a consumer instance: the client id of its member of the group says it.

`ottla-gateway-desk@https://one.example` is the instance `desk` of the gateway at that address. Gateways need not know
each other: whoever may describe the group can find the instance. A gateway without an advertised address says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.gateway.cluster.clients import CLIENT_ID


def client_id_of(name: str, advertised_url: str | None) -> str:
    """The client id of an instance."""
    return f"{CLIENT_ID}-{name}" + ("" if advertised_url is None else f"@{advertised_url}")


def owner_of(name: str, client_ids: Iterable[str]) -> str | None:
    """The address of the gateway that has an instance, from the client ids of its group."""
    prefix = f"{CLIENT_ID}-{name}@"
    for each in client_ids:
        if each.startswith(prefix):
            return each.removeprefix(prefix)
    return None
