"""A schema registry over HTTP: Ottla's own, Confluent's, or any with the same API.

What never changes is remembered: the schema of an id, and the id of a schema in a subject. An id that the registry
does not know is remembered for a few seconds, so that a topic full of foreign data does not become a flood of
requests. Requests block; a registry may be used by several threads.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from ottla.schemas.schema import AVRO, Reference
from ottla.serializers.errors import RegistryRequestError

_V1: Final = "application/vnd.schemaregistry.v1+json"
_MOST_REMEMBERED: Final = 1_000
_UNKNOWN_FOR_S: Final = 10.0
_MOST_BYTES: Final = 16 << 20


class RegistrySchema(NamedTuple):
    """A schema as a registry knows it. Without a subject, `version` is 0."""

    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    id: int = 0
    guid: str = ""
    subject: str = ""
    version: int = 0


class Registry:
    """The schemas of the registry at an address, or at the first of several that answers.

    `username` and `password`, or `token`, are how the registry knows the caller; `certificate_authority_file` is for
    a registry whose certificate the system does not trust.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        username: str | None = None,
        password: str | None = None,
        token: str | None = None,
        certificate_authority_file: str | None = None,
        timeout_ms: int = 10_000,
    ) -> None:
        given = url.split(",") if isinstance(url, str) else list(url)
        self._urls = [_checked_url(each.strip()) for each in given]
        self._headers = {"Accept": _V1} | _login(username, password, token)
        self._timeout_s = timeout_ms / 1000
        self._tls = ssl.create_default_context(cafile=certificate_authority_file)
        self._lock = threading.Lock()
        self._schemas: dict[Any, RegistrySchema] = {}
        self._unknown: dict[Any, tuple[float, RegistryRequestError]] = {}

    # ---- what serializers ask, remembered

    def schema_of_id(self, schema_id: int, subject: str = "") -> RegistrySchema:
        """The schema of an id; `subject` says the context, if it is not the default one."""
        query = f"?{urlencode({'subject': subject})}" if subject else ""
        return self._remembered(
            ("id", schema_id, subject),
            lambda: _schema(self.request("GET", f"/schemas/ids/{schema_id}{query}"), id=schema_id),
        )

    def schema_of_guid(self, guid: str) -> RegistrySchema:
        """The schema of a GUID."""
        return self._remembered(
            ("guid", guid), lambda: _schema(self.request("GET", f"/schemas/guids/{quote(guid)}"), guid=guid)
        )

    def register(
        self, subject: str, schema: RegistrySchema, *, normalize: bool = False, is_new: bool = True
    ) -> RegistrySchema:
        """The schema with its id: registered if need be; with `is_new` off, it must be there already."""

        def asked() -> RegistrySchema:
            flag = f"?normalize={str(normalize).lower()}"
            path = f"/subjects/{quote(subject, safe='')}"
            answer = self.request("POST", f"{path}/versions{flag}" if is_new else path + flag, _body(schema))
            found = _schema({**_body(schema), **answer}, subject=subject)
            return found if found.guid else self.schema_of_id(found.id, subject)._replace(id=found.id)

        return self._remembered(("register", subject, schema, normalize, is_new), asked)

    def version(self, subject: str, version: int | str = "latest") -> RegistrySchema:
        """A version of a subject. A version by its number is remembered; the latest is not."""

        def asked() -> RegistrySchema:
            return _schema(self.request("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}"))

        return asked() if version == "latest" else self._remembered(("version", subject, version), asked)

    # ---- what people ask

    def subjects(self, *, include_deleted: bool = False) -> list[str]:
        """The names of all subjects."""
        found: list[str] = self.request("GET", "/subjects" + ("?deleted=true" if include_deleted else ""))
        return found

    def versions(self, subject: str, *, include_deleted: bool = False) -> list[int]:
        """The numbers of a subject's versions."""
        query = "?deleted=true" if include_deleted else ""
        found: list[int] = self.request("GET", f"/subjects/{quote(subject, safe='')}/versions{query}")
        return found

    def misfits(self, subject: str, schema: RegistrySchema, version: int | str = "") -> list[str]:
        """Why a schema cannot follow a version, or all versions that count; nothing if it can."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions"
        path += f"/{version}?verbose=true" if version else "?verbose=true"
        answer = self.request("POST", path, _body(schema))
        messages: list[str] = answer.get("messages") or ["the registry gives no reason"]
        return [] if answer["is_compatible"] else messages

    def delete(self, subject: str, version: int | str | None = None, *, permanent: bool = False) -> list[int]:
        """Delete a subject, or one of its versions. Returns the numbers of the deleted versions."""
        path = f"/subjects/{quote(subject, safe='')}" + (
            f"/versions/{version}" if version is not None else ""
        )
        answer = self.request("DELETE", path + ("?permanent=true" if permanent else ""))
        with self._lock:
            self._schemas.clear()
        return answer if isinstance(answer, list) else [answer]

    def level(self, subject: str) -> str:
        """The compatibility level that is in force for a subject."""
        answer = self.request("GET", f"/config/{quote(subject, safe='')}?defaultToGlobal=true")
        return str(answer["compatibilityLevel"])

    # ---- requests

    def request(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of an answer. Raises RegistryRequestError, and ConnectionError if no address answers."""
        failures = []
        for url in self._urls:
            try:
                status, data = self._exchange(url, method, path, body)
            except (OSError, HTTPException) as error:
                failures.append(f"{url}: {error or type(error).__name__}")
                continue
            if status < 400:
                return _json_of(data, url)
            error_of = _refusal(status, data)
            if status < 500 or url == self._urls[-1]:
                raise error_of
            failures.append(f"{url}: {error_of}")
        raise ConnectionError(f"no schema registry answers: {'; '.join(failures)}")

    def _exchange(self, url: str, method: str, path: str, body: object) -> tuple[int, bytes]:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        connection = (
            HTTPSConnection(host, port, timeout=self._timeout_s, context=self._tls)
            if parts.scheme == "https"
            else HTTPConnection(host, port, timeout=self._timeout_s)
        )
        try:
            headers = self._headers if body is None else {**self._headers, "Content-Type": _V1}
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, parts.path.rstrip("/") + path, data, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_MOST_BYTES)
        finally:
            connection.close()

    def _remembered(self, key: Any, asked: Any) -> RegistrySchema:
        with self._lock:
            found = self._schemas.get(key)
            since, error = self._unknown.get(key, (0.0, None))
        if found is not None:
            return found
        if error is not None and time.monotonic() < since + _UNKNOWN_FOR_S:
            raise error
        try:
            made: RegistrySchema = asked()
        except RegistryRequestError as refused:
            if refused.status == 404:
                self._remember(self._unknown, key, (time.monotonic(), refused))
            raise
        self._remember(self._schemas, key, made)
        return made

    def _remember(self, values: dict[Any, Any], key: Any, value: Any) -> None:
        with self._lock:
            values[key] = value
            if len(values) > _MOST_REMEMBERED:
                del values[next(iter(values))]


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no address of a registry: expected one such as http://localhost:8082")
    return url


def _login(username: str | None, password: str | None, token: str | None) -> dict[str, str]:
    if token is not None:
        return {"Authorization": f"Bearer {token}"}
    if username is None:
        return {}
    return {"Authorization": "Basic " + b64encode(f"{username}:{password or ''}".encode()).decode()}


def _body(schema: RegistrySchema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text, "schemaType": schema.type}
    return body | (
        {"references": [each._asdict() for each in schema.references]} if schema.references else {}
    )


def _schema(answer: Any, **known: Any) -> RegistrySchema:
    if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        raise RegistryRequestError(502, 502, f"the registry's answer has no schema: {str(answer)[:200]}")
    references = tuple(
        Reference(each["name"], each["subject"], each["version"]) for each in answer.get("references") or ()
    )
    fields = {name: answer[name] for name in ("id", "guid", "subject", "version") if answer.get(name)}
    return RegistrySchema(answer["schema"], answer.get("schemaType") or AVRO, references, **(known | fields))


def _json_of(data: bytes, url: str) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError as error:
        raise RegistryRequestError(502, 502, f"{url} does not answer with JSON: is it a registry?") from error


def _refusal(status: int, data: bytes) -> RegistryRequestError:
    try:
        value = json.loads(data)
        return RegistryRequestError(status, int(value["error_code"]), str(value["message"]))
    except (ValueError, KeyError, TypeError):
        text = data[:200].decode("utf-8", "replace")
        return RegistryRequestError(status, status, f"the registry answered with status {status}: {text}")
