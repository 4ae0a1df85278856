"""The registry's memory, as serializers ask for schemas: at once, without a request."""

from __future__ import annotations

from ottla.gateway.registry.machine import subjects
from ottla.gateway.registry.machine.catalog import Catalog
from ottla.gateway.registry.machine.problems import schema_not_found
from ottla.schemas.registry.values import StoredVersion
from ottla.serializers.registry_client import RegistrySchema


class KnownSchemas:
    """A view of the catalog; see `serializers.decoding.SchemaSource`. Only the default context is served."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def of_id(self, schema_id: int) -> RegistrySchema:
        """The schema of an id. Raises RegistryError(40403)."""
        users = self._catalog.users_of(subjects.DEFAULT_CONTEXT, schema_id)
        if not users:
            raise schema_not_found(schema_id)
        return registry_schema(users[0])

    def of_guid(self, guid: str) -> RegistrySchema:
        """The schema of a GUID, in whatever context it is. Raises RegistryError(40403)."""
        for context, schema_id in self._catalog.with_guid(guid):
            return registry_schema(self._catalog.users_of(context, schema_id)[0])
        raise schema_not_found(guid)

    def version(self, subject: str, version: int | str = "latest") -> RegistrySchema:
        """A version of a subject; what others refer to may be deleted. Raises RegistryError."""
        number = None if version == "latest" else int(version)
        return registry_schema(self._catalog.version(subject, number, include_deleted=number is not None))


def registry_schema(stored: StoredVersion) -> RegistrySchema:
    """A version in the form in which serializers know schemas."""
    return RegistrySchema(
        stored.schema.text,
        stored.schema.type,
        stored.schema.references,
        stored.id,
        stored.guid,
        stored.subject,
        stored.version,
    )
