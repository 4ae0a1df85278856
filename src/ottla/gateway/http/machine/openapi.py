"""OpenAPI of the gateway, made from the table of routes: what is declared there is what is served."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

from ottla.gateway.http.machine.message import JSON
from ottla.gateway.http.machine.parameters import Parameter
from ottla.gateway.http.machine.routes import Route

_ERROR = {"$ref": "#/components/schemas/Error"}
_ERROR_SCHEMA = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {
        "error_code": {"type": "integer", "description": "The status, or Confluent's number of five digits."},
        "message": {"type": "string"},
        "kafka_error": {"type": "string", "description": "The name of Kafka's error, where there is one."},
    },
}
# Any request may be refused with these, before it has a handler.
_ALWAYS = (400, 401, 406, 408, 503)


def openapi(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """The document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ottla's gateway", "version": version},
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR_SCHEMA},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{}, {"basic": []}, {"bearer": []}],
    }


def statuses(route: Route) -> list[int]:
    """Every status that the answer to a route's request may have."""
    with_body = (413, 415) if route.body != "none" else ()
    return sorted({route.status, *route.problems, *_ALWAYS, *with_body})


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_"),
        "summary": route.summary,
        "tags": [route.tag],
        "responses": {str(status): _response(route, status) for status in statuses(route)},
    }
    parameters = [_path_parameter(name) for name in route.param_names] + list(
        map(_query_parameter, route.parameters)
    )
    if parameters:
        operation["parameters"] = parameters
    if route.body != "none":
        content = _content(route.takes, dict(route.body_schema))
        operation["requestBody"] = {"required": route.body != "optional", "content": content}
    return operation


def _response(route: Route, status: int) -> dict[str, Any]:
    described: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if status == route.status:
        if status not in (101, 204):
            described["content"] = _content(route.gives, dict(route.answer_schema))
    else:
        described["content"] = _content((JSON,), _ERROR)
    return described


def _content(media_types: Sequence[str], schema: dict[str, Any]) -> dict[str, Any]:
    return {each: {"schema": schema} for each in media_types}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameter(declared: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": declared.type}
    limits = {"minimum": declared.at_least, "maximum": declared.at_most, "default": declared.default}
    schema |= {name: value for name, value in limits.items() if value is not None}
    if declared.choices:
        schema["enum"] = list(declared.choices)
    return {
        "name": declared.name,
        "in": "query",
        "required": False,
        "description": declared.doc,
        "schema": schema,
    }
