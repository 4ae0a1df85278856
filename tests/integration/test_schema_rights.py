"""Who may read and change schemas: the cluster's access control lists decide, for each caller by itself."""

from __future__ import annotations

import asyncio

import pytest
from tests.integration.gateway_place import gateway_place

import ottla
import ottla.testing
from ottla.security.acl.rules import ResourceType
from ottla.serializers import Registry, RegistryRequestError
from ottla.serializers.registry_client import RegistrySchema
from ottla.testing.embedded_broker import EmbeddedBroker

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}
USERS = {"root": "secret-r", "writer": "secret-w", "reader": "secret-e", "nobody": "secret-n"}


def grant(broker: EmbeddedBroker, user: str, kind: ResourceType, name: str, *rights: ottla.Operation) -> None:
    async def create() -> None:
        async with ottla.Admin(broker.bootstrap, security=broker.security("root")) as admin:
            acls = [ottla.Acl(ottla.Pattern(kind, name), f"User:{user}", "*", right) for right in rights]
            ottla.succeeded(await admin.create_acls(acls))

    asyncio.run(create())


def test_the_clusters_rights_are_those_of_the_registry() -> None:
    topic, transactions = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
    rights = ottla.Operation
    with ottla.testing.broker(settings=SETTINGS, users=USERS) as broker:
        grant(broker, "writer", topic, "_schemas", rights.DESCRIBE, rights.WRITE)
        grant(broker, "writer", transactions, "ottla-schema-registry", rights.DESCRIBE, rights.WRITE)
        grant(broker, "reader", topic, "_schemas", rights.DESCRIBE)
        settings = {"requires_login": True, "login_mechanism": "SCRAM-SHA-256"}
        with gateway_place(broker.bootstrap, broker.security("root"), **settings) as place:
            url = place.gateway.url
            known = {
                name: Registry(url, username=name, password=password) for name, password in USERS.items()
            }
            made = known["writer"].register("s", RegistrySchema('"int"'))
            assert known["reader"].version("s").id == made.id
            # A schema that is there already needs no right to write.
            assert known["reader"].register("s", RegistrySchema('"int"')).id == made.id
            with pytest.raises(RegistryRequestError) as refused:
                known["reader"].register("s", RegistrySchema('"long"'))
            assert refused.value.code == 40301
            assert "transactional id ottla-schema-registry" in refused.value.message
            with pytest.raises(RegistryRequestError) as refused:
                known["nobody"].subjects()
            assert refused.value.status in (403, 404)
            with pytest.raises(RegistryRequestError) as refused:
                Registry(url).subjects()
            assert refused.value.code == 40101
            with pytest.raises(RegistryRequestError) as refused:
                Registry(url, username="writer", password="guess").subjects()
            assert refused.value.code == 40101
            # The writer is not disturbed by those who were refused.
            assert known["writer"].register("s", RegistrySchema('"long"')).version == 2
