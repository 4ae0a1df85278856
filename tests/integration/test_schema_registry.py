"""GTW-4: the schema registry, called by confluent-kafka's own client, by plain HTTP, and through several gateways."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError
from tests.integration.gateway_place import GatewayPlace, Reply, gateway_place

import ottla.testing

V1 = "application/vnd.schemaregistry.v1+json"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with ottla.testing.broker() as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def gateway(bootstrap: str) -> Iterator[GatewayPlace]:
    with gateway_place(bootstrap) as place:
        yield place


@pytest.fixture(scope="module")
def client(gateway: GatewayPlace) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": gateway.gateway.url}) as made:
        yield made


@pytest.fixture
def subject() -> str:
    return f"s-{uuid.uuid4().hex[:8]}-value"


def order(*fields: str, name: str = "Order", **others: Any) -> str:
    made = [{"name": each, "type": "int"} for each in fields]
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": made, **others})


def optional(name: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", "int"], "default": None}


def call(gateway: GatewayPlace, method: str, path: str, body: Any = None) -> Reply:
    return gateway.call(method, path, body, content_type=V1)


def test_a_schema_is_registered_once_and_found_by_id_guid_version_and_text(
    client: SchemaRegistryClient, gateway: GatewayPlace, subject: str
) -> None:
    schema = Schema(order("a", name=f"R{subject[2:10]}"), "AVRO")
    found = client.register_schema_full_response(subject, schema)
    assert client.register_schema(subject, schema) == found.schema_id
    with SchemaRegistryClient({"url": gateway.gateway.url}) as fresh:
        by_id = fresh.get_schema(found.schema_id)
        assert json.loads(by_id.schema_str) == json.loads(schema.schema_str)
        assert fresh.get_schema_by_guid(found.guid).schema_str == by_id.schema_str
        assert fresh.get_latest_version(subject).version == 1
        assert fresh.get_version(subject, 1).schema_id == found.schema_id
        assert fresh.lookup_schema(subject, schema).version == 1
        assert subject in fresh.get_subjects()
        assert fresh.get_versions(subject) == [1]
        assert fresh.get_subjects_by_schema_id(found.schema_id) == [subject]
        assert [each.subject for each in fresh.get_schema_versions(found.schema_id)] == [subject]
        # The same schema has the same id in another subject.
        assert fresh.register_schema(f"{subject}-2", schema) == found.schema_id
        assert "AVRO" in fresh.get_schema_types()


def test_the_first_schema_waits_until_the_brokers_know_the_new_topic() -> None:
    with ottla.testing.broker() as broker, gateway_place(broker.bootstrap) as place:
        unknowing = broker.faults.fail("metadata", "UNKNOWN_TOPIC_OR_PARTITION", times=6)
        written = call(place, "POST", "/subjects/first-value/versions", {"schema": order("a")})
        assert written.status == 200, written.body
        assert unknowing.hits == 6


def test_what_differs_only_in_how_it_is_written_is_the_same_schema(
    client: SchemaRegistryClient, subject: str
) -> None:
    spelled = '{"namespace": "x", "fields": [{"type": {"type": "int"}, "name": "a"}], "name": "N", "type": "record"}'
    other = '{"type":"record","name":"x.N","fields":[{"name":"a","type":"int"}]}'
    first = client.register_schema_full_response(subject, Schema(spelled, "AVRO"))
    assert client.register_schema_full_response(subject, Schema(other, "AVRO")).guid == first.guid
    assert client.get_versions(subject) == [1]


def test_an_incompatible_schema_is_refused_with_the_reason_and_the_version(
    client: SchemaRegistryClient, gateway: GatewayPlace, subject: str
) -> None:
    client.register_schema(subject, Schema(order("a"), "AVRO"))
    wrong = Schema(order("a", "b"), "AVRO")
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(subject, wrong)
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    for words in (
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        "'b'",
        "/fields/1",
        "oldSchemaVersion: 1",
        "BACKWARD",
    ):
        assert words in refused.value.error_message
    assert client.test_compatibility(subject, wrong) is False
    reply = call(
        gateway,
        "POST",
        f"/compatibility/subjects/{subject}/versions/latest?verbose=true",
        {"schema": wrong.schema_str},
    )
    assert reply.json["is_compatible"] is False
    assert "'b'" in reply.json["messages"][0]
    client.set_compatibility(subject, "NONE")
    assert client.get_compatibility(subject) == "NONE"
    assert client.test_compatibility(subject, wrong) is True
    client.register_schema(subject, wrong)
    assert client.get_versions(subject) == [1, 2]


def test_transitive_levels_look_at_all_versions(client: SchemaRegistryClient, subject: str) -> None:
    client.set_compatibility(subject, "BACKWARD")
    first, second = order("a"), order()
    third = json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": [optional("a")]})
    third = third.replace('["null", "int"]', '["null", "string"]')
    for each in (first, second):
        client.register_schema(subject, Schema(each, "AVRO"))
    assert client.test_compatibility_all_versions(subject, Schema(third, "AVRO")) is True
    client.set_compatibility(subject, "BACKWARD_TRANSITIVE")
    assert client.test_compatibility_all_versions(subject, Schema(third, "AVRO")) is False
    with pytest.raises(SchemaRegistryError, match="oldSchemaVersion: 1"):
        client.register_schema(subject, Schema(third, "AVRO"))


def test_soft_and_hard_deletes(client: SchemaRegistryClient, gateway: GatewayPlace, subject: str) -> None:
    client.set_compatibility(subject, "NONE")
    ids = [
        client.register_schema(subject, Schema(order(each, name=f"D{subject[2:10]}"), "AVRO"))
        for each in "ab"
    ]
    with pytest.raises(SchemaRegistryError, match="40407"):
        client.delete_version(subject, 1, permanent=True)
    assert client.delete_version(subject, 1) == 1
    with pytest.raises(SchemaRegistryError, match="40406"):
        client.delete_version(subject, 1)
    assert client.get_versions(subject) == [2]
    assert client.get_versions(subject, deleted=True) == [1, 2]
    assert call(gateway, "GET", f"/subjects/{subject}/versions/1").error == (404, 40402)
    assert call(gateway, "GET", f"/schemas/ids/{ids[0]}").status == 200  # old data can be read
    assert client.delete_subject(subject) == [2]
    assert call(gateway, "DELETE", f"/subjects/{subject}").error == (404, 40404)
    assert call(gateway, "GET", f"/subjects/{subject}/versions").error == (404, 40401)
    assert client.delete_subject(subject, permanent=True) == [1, 2]
    assert call(gateway, "GET", f"/schemas/ids/{ids[0]}").error == (404, 40403)
    assert call(gateway, "GET", f"/config/{subject}").error == (404, 40408)


def test_references_are_resolved_and_protect_what_they_refer_to(
    client: SchemaRegistryClient, gateway: GatewayPlace, subject: str
) -> None:
    customer = order("id", name="Customer")
    client.register_schema(f"{subject}-c", Schema(customer, "AVRO"))
    text = '{"type":"record","name":"shop.Sale","fields":[{"name":"by","type":"shop.Customer"}]}'
    with pytest.raises(SchemaRegistryError, match=r"there is no type 'shop\.Customer'"):
        client.register_schema(subject, Schema(text, "AVRO"))
    references = [SchemaReference("shop.Customer", f"{subject}-c", 1)]
    schema_id = client.register_schema(subject, Schema(text, "AVRO", references))
    assert client.get_version(subject, 1).schema.references == references
    assert client.get_referenced_by(f"{subject}-c", 1) == [schema_id]
    assert call(gateway, "DELETE", f"/subjects/{subject}-c").error == (422, 42206)
    missing = {"schema": text, "references": [{"name": "x", "subject": "nobody", "version": 1}]}
    reply = call(gateway, "POST", f"/subjects/{subject}/versions", missing)
    assert reply.error == (422, 42201)
    assert "nobody" in reply.json["message"]


def test_modes_say_what_may_be_written(
    client: SchemaRegistryClient, gateway: GatewayPlace, subject: str
) -> None:
    client.update_mode(subject, "READONLY")
    assert client.get_mode(subject) == "READONLY"
    with pytest.raises(SchemaRegistryError, match="42205"):
        client.register_schema(subject, Schema(order("a"), "AVRO"))
    client.update_mode(subject, "IMPORT")
    body = {"schema": order("i", name=f"I{subject[2:10]}"), "id": 4711, "version": 7}
    assert call(gateway, "POST", f"/subjects/{subject}/versions", body).json["id"] == 4711
    assert client.get_versions(subject) == [7]
    other = {"schema": order("j"), "id": 4711, "version": 8}
    assert call(gateway, "POST", f"/subjects/{subject}/versions", other).error == (422, 42207)
    assert client.delete_mode(subject) == "IMPORT"
    assert call(gateway, "GET", f"/mode/{subject}").error == (404, 40409)
    assert client.get_global_mode() == "READWRITE"
    assert call(gateway, "PUT", f"/mode/{subject}", {"mode": "LAZY"}).error == (422, 42204)
    assert call(gateway, "PUT", f"/config/{subject}", {"compatibility": "SOME"}).error == (422, 42203)


def test_contexts_have_subjects_and_ids_of_their_own(
    client: SchemaRegistryClient, gateway: GatewayPlace, subject: str
) -> None:
    name = f"c{subject[2:10]}"
    schema = {"schema": order("in_context", name=f"C{name}")}
    made = call(gateway, "POST", f"/contexts/.{name}/subjects/{subject}/versions", schema).json
    assert (made["id"], made["subject"]) == (1, f":.{name}:{subject}")
    assert f".{name}" in client.get_contexts()
    assert call(gateway, "GET", f"/contexts/:.{name}:/schemas/ids/1").json["schema"] == made["schema"]
    assert call(gateway, "GET", f"/schemas/ids/1?subject=:.{name}:").json["guid"] == made["guid"]
    assert call(gateway, "GET", f"/contexts/.{name}/subjects").json == [f":.{name}:{subject}"]
    assert client.get_latest_version(f":.{name}:{subject}").schema_id == 1


def test_metadata_is_kept_and_asked_for(gateway: GatewayPlace, subject: str) -> None:
    body = {"schema": order("a"), "metadata": {"properties": {"owner": "ada"}}}
    assert call(gateway, "POST", f"/subjects/{subject}/versions", body).status == 200
    found = call(gateway, "GET", f"/subjects/{subject}/metadata?key=owner&value=ada").json
    assert found["metadata"] == {"properties": {"owner": "ada"}}
    assert call(gateway, "GET", f"/subjects/{subject}/metadata?key=owner&value=bob").error == (404, 40403)


@pytest.mark.parametrize(
    ("method", "path", "body", "error"),
    [
        ("GET", "/schemas/ids/99999", None, (404, 40403)),
        ("GET", "/schemas/ids/x", None, (404, 404)),
        ("GET", "/schemas/guids/x", None, (404, 40403)),
        ("GET", "/subjects/nobody/versions", None, (404, 40401)),
        ("GET", "/subjects/nobody/versions/1", None, (404, 40401)),
        ("GET", "/subjects/nobody/versions/zero", None, (422, 42202)),
        ("GET", "/subjects/nobody/versions/0", None, (422, 42202)),
        ("GET", "/subjects/nobody/versions/99999999999", None, (422, 42202)),
        ("POST", "/subjects/nobody", {"schema": '"int"'}, (404, 40401)),
        ("POST", "/subjects/x/versions", {"schema": "{"}, (422, 42201)),
        ("POST", "/subjects/x/versions", {"schema": 3}, (422, 42201)),
        ("POST", "/subjects/x/versions", {"schema": '"int"', "schemaType": "XML"}, (422, 42201)),
        ("POST", "/subjects/x/versions", {"schema": '"int"', "ruleSet": {"a": 1}}, (422, 42210)),
        ("POST", "/subjects/x/versions", {"schema": '"int"', "references": [1]}, (422, 422)),
        ("POST", "/subjects/x/versions", {"schema": '"int"', "id": 5}, (422, 42205)),
        ("POST", "/subjects/__GLOBAL/versions", {"schema": '"int"'}, (422, 42208)),
        ("POST", "/subjects/%00/versions", {"schema": '"int"'}, (422, 42208)),
        ("POST", "/subjects/x/versions", {"schema": '"' + "i" * 950_000 + '"'}, (422, 42209)),
        ("POST", "/subjects/x/versions", [], (422, 422)),
        ("DELETE", "/subjects/nobody", None, (404, 40401)),
        ("DELETE", "/config/nobody", None, (404, 40401)),
        ("PUT", "/config/x", {"alias": "y"}, (422, 422)),
    ],
)
def test_bad_requests_are_refused_with_confluents_numbers(
    gateway: GatewayPlace, method: str, path: str, body: Any, error: tuple[int, int]
) -> None:
    assert call(gateway, method, path, body).error == error


def test_the_topic_is_compacted_and_has_one_partition(gateway: GatewayPlace) -> None:
    topic = gateway.call("GET", "/topics/_schemas").json
    assert len(topic["partitions"]) == 1
    assert topic["configs"]["cleanup.policy"] == "compact"


def test_a_write_through_one_gateway_is_read_through_another_when_it_is_answered(
    bootstrap: str, gateway: GatewayPlace, subject: str
) -> None:
    with gateway_place(bootstrap) as other:
        call(gateway, "PUT", f"/config/{subject}", {"compatibility": "NONE"})
        for number in range(20):
            writer, reader = (gateway, other) if number % 2 else (other, gateway)
            schema = {"schema": order(f"f{number}", name="Turns")}
            made = call(writer, "POST", f"/subjects/{subject}/versions", schema).json
            assert call(reader, "GET", f"/subjects/{subject}/versions/latest").json["id"] == made["id"]
            assert call(reader, "GET", f"/schemas/ids/{made['id']}").json["schema"] == made["schema"]
        assert call(other, "GET", f"/subjects/{subject}/versions").json == list(range(1, 21))


def test_gateways_that_write_at_once_give_no_id_and_no_version_twice(
    bootstrap: str, gateway: GatewayPlace, subject: str
) -> None:
    with gateway_place(bootstrap) as second, gateway_place(bootstrap) as third:
        call(gateway, "PUT", f"/config/{subject}", {"compatibility": "NONE"})

        def register(number: int) -> dict[str, Any]:
            place = (gateway, second, third)[number % 3]
            schema = {"schema": order(f"f{number}", name="AtOnce")}
            reply = call(place, "POST", f"/subjects/{subject}/versions", schema)
            assert reply.status == 200, reply.body
            made: dict[str, Any] = reply.json
            return made

        with ThreadPoolExecutor(6) as pool:
            made = list(pool.map(register, range(30)))
        assert sorted(each["version"] for each in made) == list(range(1, 31))
        assert len({each["id"] for each in made}) == 30
        found = [call(third, "GET", f"/subjects/{subject}/versions/{each['version']}").json for each in made]
        assert [(each["id"], each["schema"]) for each in found] == [
            (each["id"], each["schema"]) for each in made
        ]


def test_a_new_gateway_reads_what_earlier_ones_wrote(
    bootstrap: str, client: SchemaRegistryClient, subject: str
) -> None:
    schema_id = client.register_schema(subject, Schema(order("kept"), "AVRO"))
    client.set_compatibility(subject, "FULL")
    with gateway_place(bootstrap) as fresh:
        assert call(fresh, "GET", f"/subjects/{subject}/versions/1").json["id"] == schema_id
        assert call(fresh, "GET", f"/config/{subject}").json == {"compatibilityLevel": "FULL"}
