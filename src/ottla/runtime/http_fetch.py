"""What a URL stands for, fetched by threads that may wait. With a limit on time and size, and without redirects.

Errors are OSError in words. They name no secret: neither the query of a URL, nor what was sent, nor what came back.
"""

import http.client
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

_FILE: Final = "file://"
_PIECE_BYTES: Final = 64 << 10


class HttpStatusError(OSError):
    """The server answered with a status that is no success. `body` is the beginning of what it said."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"it answered with status {status}")
        self.status = status
        self.body = body


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is an answer like any other: keys and secrets go where the settings say."""

    def redirect_request(self, *_: Any) -> None:
        return None


def shown_url(url: str) -> str:
    """A URL for messages: without user and query, in which there may be secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "a URL that cannot be read"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def content_of(url: str, *, most_bytes: int, timeout_s: float) -> bytes:
    """What a URL stands for: the bytes of a file, or what a server answers."""
    if not url.startswith(_FILE):
        return fetched(url, most_bytes=most_bytes, timeout_s=timeout_s)
    with Path(unquote(url.removeprefix(_FILE))).open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(f"it has more than {most_bytes} bytes")
    return content


def fetched(
    url: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    most_bytes: int,
    timeout_s: float,
) -> bytes:
    """What a server answers: to GET, or to POST if there is a body."""
    if not url.startswith(("https://", "http://")):
        raise OSError("it is no URL of HTTP")
    deadline_s = time.monotonic() + timeout_s
    try:
        request = Request(url, data=body, headers=dict(headers or {}))
        with build_opener(_NoRedirects()).open(request, timeout=timeout_s) as answer:
            return _read(answer, most_bytes, deadline_s)
    except HTTPError as error:
        with error:
            raise HttpStatusError(error.code, error.read(_PIECE_BYTES)) from None
    except URLError as error:
        raise OSError(f"it cannot be reached: {error.reason}") from None
    except http.client.HTTPException as error:
        raise OSError(f"it does not speak HTTP: {type(error).__name__}") from None
    except ValueError:
        raise OSError("it is no usable URL") from None


def _read(answer: http.client.HTTPResponse, most_bytes: int, deadline_s: float) -> bytes:
    pieces, size_bytes = [], 0
    while piece := answer.read1(min(_PIECE_BYTES, most_bytes + 1 - size_bytes)):
        pieces.append(piece)
        size_bytes += len(piece)
        if size_bytes > most_bytes:
            raise OSError(f"its answer has more than {most_bytes} bytes")
        if time.monotonic() > deadline_s:
            raise OSError("it did not answer in time")
    return b"".join(pieces)
