"""JSON by a registry: values that fit a JSON Schema, checked by the package jsonschema.

A schema's regular expressions are run by Python's `re` when values are checked, and some of them take very long. Your
own schema is always run. The schema that a writer has registered checks what is read only if its patterns cannot take
long, or if you trust all writers of schemas (`trusts_writers`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ottla.schemas.json_schema.model import canonical_text, parse_json_schema
from ottla.schemas.json_schema.safe_patterns import unsafe_pattern
from ottla.schemas.schema import JSON, Imported, Reference
from ottla.schemas.wire_format import Framed
from ottla.serializers.decoding import RegistryDeserializer, SchemaSource, imports_of
from ottla.serializers.encoding import Encoder, RegistrySerializer, Written
from ottla.serializers.errors import SchemaDataError
from ottla.serializers.registry_client import Registry, RegistrySchema

try:
    import jsonschema
    import referencing
    import referencing.jsonschema
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "JSON Schema needs the package jsonschema: pip install 'ottla[schemas]'", name="jsonschema"
    ) from missing

_MOST_PARSED = 256


class JsonSchemaSerializer(RegistrySerializer):
    """A function from values to JSON with the id of its schema, for `value_serializer` and `key_serializer`.

    `schema` is a JSON text, or the value of one. The title of the schema is its name for `subject_name`. Other
    options: see Encoder.
    """

    def __init__(
        self,
        registry: Registry,
        schema: str | Mapping[str, Any],
        *,
        references: Sequence[Reference] = (),
        validate: bool = True,
        **options: Any,
    ) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        sent = RegistrySchema(text, JSON, tuple(Reference(*each) for each in references))
        parsed = parse_json_schema(text, imports_of(registry, sent))
        title = parsed.root.get("title") if isinstance(parsed.root, dict) else None
        self._registry = registry
        self._validate = validate
        self._encoder = Encoder(registry, sent._replace(text=canonical_text(parsed)), title, **options)

    def _written(self, schema: RegistrySchema, value: object) -> Written:
        return Written(json_bytes(self._registry, schema, value, validate=self._validate))


class JsonSchemaDeserializer(RegistryDeserializer):
    """Values from JSON, each checked by the schema that it names, or by `schema`.

    A schema that values name and that has a regular expression which could take long does not check them, unless
    `trusts_writers` is set.
    """

    _type = JSON

    def __init__(
        self,
        registry: Registry,
        schema: str | Mapping[str, Any] | None = None,
        *,
        references: Sequence[Reference] = (),
        validate: bool = True,
        trusts_writers: bool = False,
        context: str = "",
    ) -> None:
        super().__init__(registry, context)
        self._validate = validate
        self._trusts_writers = trusts_writers
        self._own: RegistrySchema | None = None
        if schema is not None:
            text = schema if isinstance(schema, str) else json.dumps(schema)
            self._own = RegistrySchema(text, JSON, tuple(Reference(*each) for each in references))
            parse_json_schema(text, imports_of(registry, self._own))

    def _value(self, schema: RegistrySchema, read: Framed) -> Any:
        try:
            value = json.loads(read.payload)
        except (ValueError, RecursionError) as error:
            raise SchemaDataError(f"the data behind the schema id is not JSON: {error}") from error
        if self._validate and self._may_run(schema):
            _check(self._registry, self._own or schema, value)
        return value

    def _may_run(self, schema: RegistrySchema) -> bool:
        if self._own is not None or self._trusts_writers:
            return True
        return _is_quick(schema.text, *(each.text for each in imports_of(self._registry, schema)))


@lru_cache(maxsize=_MOST_PARSED)
def _is_quick(*texts: str) -> bool:
    """Whether no regular expression of these schemas can take long."""
    return unsafe_pattern(texts) is None


def json_bytes(registry: SchemaSource, schema: RegistrySchema, value: object, *, validate: bool) -> bytes:
    """A value by a schema. Raises SchemaDataError."""
    if validate:
        _check(registry, schema, value)
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaDataError(f"the value cannot be written as JSON: {error}") from error


def _check(registry: SchemaSource, schema: RegistrySchema, value: object) -> None:
    """Raises SchemaDataError if the value does not fit the schema."""
    validator = _validator(schema.text, tuple(imports_of(registry, schema)))
    try:
        error = next(validator.iter_errors(value), None)
    except (RecursionError, referencing.exceptions.Unresolvable) as trouble:
        raise SchemaDataError(f"the value cannot be checked: {trouble!r}") from trouble
    if error is not None:
        raise SchemaDataError(
            f"the value does not fit the schema at {error.json_path}: {error.message[:500]}"
        )


@lru_cache(maxsize=_MOST_PARSED)
def _validator(text: str, imports: tuple[Imported, ...]) -> Any:
    content = json.loads(text)
    kind = jsonschema.validators.validator_for(content, default=jsonschema.Draft202012Validator)
    resources = [
        (
            each.name,
            referencing.Resource.from_contents(
                json.loads(each.text), default_specification=referencing.jsonschema.DRAFT202012
            ),
        )
        for each in imports
    ]
    return kind(content, registry=referencing.Registry().with_resources(resources))
