"""Object stores through the package obstore, which is imported here and nowhere else.

Credentials, regions and endpoints come from where the store's own tools find them (for S3: AWS_ACCESS_KEY_ID,
AWS_REGION, AWS_ENDPOINT_URL, roles of the machine). The package's errors carry debugging output over many lines,
which may name headers: only their first line is passed on.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, from_url

from ottla.runtime.object_store import (
    Chunk,
    ObjectMissingError,
    ObjectStore,
    StoredObject,
    StoreError,
    StoreForbiddenError,
)

# Larger objects are uploaded in parts, several at a time; S3 wants at least 5 MiB for a part.
_PART_BYTES: Final = 8 << 20
_PARTS_AT_A_TIME: Final = 4
# One request; a store that needs longer is down, and callers try again later.
_CLIENT: Final[Any] = {"timeout": timedelta(seconds=30), "connect_timeout": timedelta(seconds=5)}
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
_RETRY: Final[Any] = {"max_retries": 2, "retry_timeout": timedelta(seconds=20)}


def open_store(url: str, *, is_read_only: bool = False) -> ObjectStore:
    """The store with this address. StoreError if it cannot be used at all."""
    parts = urlsplit(url)
    with _failures("opening the store"):
        if parts.scheme == "file":
            return ObstoreStore(_directory(unquote(parts.path), is_read_only=is_read_only))
        if parts.scheme == "memory":
            return ObstoreStore(from_url(url))
        config: Any = {"checksum_algorithm": "SHA256"} if parts.scheme in ("s3", "s3a") else {}
        client: Any = {**_CLIENT, "allow_http": _is_http_allowed()}
        return ObstoreStore(from_url(url, config=config, client_options=client, retry_config=_RETRY))


def _is_http_allowed() -> bool:
    """Whether the environment names an endpoint without TLS: whoever writes http:// there means it."""
    endpoints = (os.environ.get(name, "") for name in _ENDPOINTS)
    return any(endpoint.startswith("http://") for endpoint in endpoints)


def _directory(path: str, *, is_read_only: bool) -> LocalStore:
    if is_read_only and not os.path.isdir(path):
        raise StoreError(f"there is no directory {path} on this machine")
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as problem:
        raise StoreError(f"the directory {path} cannot be made: {problem.strerror}") from problem
    return LocalStore(path)


class ObstoreStore:
    """One store of obstore. May be used in several threads at a time."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def put(self, name: str, size_bytes: int, chunks: Iterable[Chunk]) -> None:
        with _failures(f"writing {name}"):
            if size_bytes <= _PART_BYTES:
                obstore.put(self._store, name, b"".join(chunks), use_multipart=False)
            else:
                obstore.put(
                    self._store,
                    name,
                    iter(chunks),
                    chunk_size=_PART_BYTES,
                    max_concurrency=_PARTS_AT_A_TIME,
                )

    def get(self, name: str, position: int, size_bytes: int) -> bytes:
        if size_bytes <= 0:
            return b""
        with _failures(f"reading {name}"):
            return bytes(obstore.get_range(self._store, name, start=position, length=size_bytes))

    def size(self, name: str) -> int:
        with _failures(f"looking for {name}"):
            return int(obstore.head(self._store, name)["size"])

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                with _failures(f"deleting {name}"):
                    obstore.delete(self._store, name)
            except ObjectMissingError:
                continue

    def list(self, prefix: str) -> Iterator[StoredObject]:
        with _failures(f"listing {prefix or 'all objects'}"):
            for page in obstore.list(self._store, prefix or None):
                for found in page:
                    modified_ms = int(found["last_modified"].timestamp() * 1000)
                    yield StoredObject(found["path"], found["size"], modified_ms)


@contextmanager
def _failures(doing: str) -> Iterator[None]:
    """Turn every failure into a StoreError of one line."""
    try:
        yield
    except StoreError:
        raise
    except FileNotFoundError as problem:
        raise ObjectMissingError(f"{doing}: there is no such object") from problem
    except (PermissionDeniedError, UnauthenticatedError) as problem:
        raise StoreForbiddenError(f"{doing}: {_first_line(problem)}") from problem
    except (BaseError, OSError, ValueError) as problem:
        raise StoreError(f"{doing}: {_first_line(problem)}") from problem


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:300]
