"""Our declarations say the same as Apache Kafka's own definitions, field by field and version by version
(WIRE-1).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Annotated, Any
from uuid import UUID

import pytest
from tests.conformance import kafka_schema
from tests.conformance.declared import declared_classes, is_our_own, version_id
from tests.conformance.kafka_schema import FieldShape

from ottla.protocol.apis import DECLARED_APIS, ApiKey
from ottla.protocol.codec import Int32, String, declaration_of, message, since
from ottla.protocol.declaration import ZERO_UUID
from ottla.protocol.layout import Field, layout

pytestmark = pytest.mark.skipif(
    not kafka_schema.FOLDER.is_dir(),
    reason=f"Kafka's message definitions are not beside this checkout ({kafka_schema.FOLDER})",
)

definitions = cache(kafka_schema.definitions)

# Questions and records about object stores, with keys far outside Kafka's.
OUR_KEYS = range(20_480, 20_500)

ALL_APIS = tuple(DECLARED_APIS.values())

# Formats that Kafka has in its code only: what the sticky assignor of its client writes into subscriptions.
ONLY_IN_KAFKAS_CODE = {"StickyUserData"}


def our_fields(cls: type[Any], version: int) -> tuple[FieldShape, ...]:
    fields = layout(cls, version)
    tagged = [f for f in fields.tagged if not is_our_own(f)]
    present = {f.name: f for f in (*fields.plain, *tagged)}
    return tuple(_our_shape(present[name], version) for name in cls.__slots__ if name in present)


def _our_shape(field: Field, version: int) -> FieldShape:
    return FieldShape(
        name=field.name,
        type=field.kind.__name__ if isinstance(field.kind, type) else field.kind.name,
        is_array=field.is_array,
        is_nullable=field.is_nullable(version),
        tag=field.tag,
        default=_our_default(field),
        fields=our_fields(field.kind, version) if isinstance(field.kind, type) else (),
    )


def _our_default(field: Field) -> object:
    """In the form of Kafka's definitions, which spell a default that is nothing as an empty string."""
    if isinstance(field.kind, type) and not field.is_array and field.default is not None:
        assert field.default == field.kind()
        return ""
    if field.default in (b"", ZERO_UUID):
        return ""
    assert not isinstance(field.default, UUID)
    return field.default


def with_kafkas_struct_names(
    ours: tuple[FieldShape, ...], theirs: tuple[FieldShape, ...]
) -> tuple[FieldShape, ...]:
    """Ours, with Kafka's struct name wherever our name ends with it: a module's second struct has a
    prefix.
    """
    renamed = []
    for our, their in zip(ours, theirs, strict=False):
        kind = their.type if their.fields and our.type.endswith(their.type) else our.type
        renamed.append(replace(our, type=kind, fields=with_kafkas_struct_names(our.fields, their.fields)))
    return (*renamed, *ours[len(renamed) :])


def differences(cls: type[Any]) -> list[str]:
    """Every sentence that is true of our declaration and not of Kafka's."""
    theirs = definitions().get(cls.__name__)
    if theirs is None and cls.__name__ in ONLY_IN_KAFKAS_CODE:
        return []
    if theirs is None and declaration_of(cls).key in OUR_KEYS:
        return []
    if theirs is None:
        return [f"Kafka defines no {cls.__name__}"]
    key, (first, last), flexible = declaration_of(cls)
    found = []
    if key != theirs.get("apiKey", key):
        found.append(f"key is {key}, not {theirs['apiKey']}")
    for version in range(first, last + 1):
        if not kafka_schema.contains(theirs["validVersions"], version):
            found.append(f"v{version} is not one of {theirs['validVersions']}")
        if kafka_schema.contains(theirs["flexibleVersions"], version) != (
            flexible is not None and version >= flexible
        ):
            found.append(f"v{version}: flexible versions are {theirs['flexibleVersions']}, not {flexible}+")
        expected = kafka_schema.fields_in(theirs, version)
        actual = with_kafkas_struct_names(our_fields(cls, version), expected)
        if actual != expected:
            found.append(f"v{version}: {actual}\n  is not Kafka's\n  {expected}")
    return found


@pytest.mark.parametrize("cls", declared_classes(), ids=version_id)
def test_a_declaration_says_what_kafkas_definition_says(cls: type[Any]) -> None:
    assert not differences(cls)


def test_the_keys_of_all_apis_are_kafkas() -> None:
    requests = {d["apiKey"]: d["name"] for d in definitions().values() if d["type"] == "request"}
    names = {
        key: kafka_schema.snake_case(name.removesuffix("Request")).upper() for key, name in requests.items()
    }
    assert {int(key): key.name for key in ApiKey if key not in OUR_KEYS} == names


def test_an_api_joins_a_request_with_its_own_response() -> None:
    for api in ALL_APIS:
        assert api.request.__name__.removesuffix("Request") == api.response.__name__.removesuffix("Response")
        assert declaration_of(api.request) == declaration_of(api.response)


def test_every_declared_request_and_response_belongs_to_an_api() -> None:
    in_apis = {cls for api in ALL_APIS for cls in (api.request, api.response)}
    assert {cls for cls in declared_classes() if cls.__module__.startswith("ottla.protocol.")} == in_apis


def test_a_wrong_declaration_would_be_noticed() -> None:
    @message(key=18, versions=(0, 5), flexible=2)
    class ApiVersionsRequest:
        client_software_name: Annotated[String | None, since(3)] = ""
        client_software_version: Annotated[Int32, since(3)] = 0

    found = "\n".join(differences(ApiVersionsRequest))
    assert "v5 is not one of 0-4" in found
    assert "v2: flexible versions are 3+, not 2+" in found
    assert (
        "v3: (FieldShape(name='client_software_name', type='string', is_array=False, is_nullable=True"
        in found
    )
