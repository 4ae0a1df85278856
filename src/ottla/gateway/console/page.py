"""The page and its scripts, as the package has them in `static`.

The scripts lie under a path that has the digest of all of them: a browser keeps them for ever, and a new version has
new addresses. The page itself is asked for again each time, by its ETag. Nothing is loaded from elsewhere, and the
content policy lets nothing else run: no inline script or style, no frame around the page.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.message import Answer, Request
from ottla.gateway.http.machine.routes import Route

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_GIVES: Final = ("text/javascript", "text/css", "image/svg+xml", "text/html")
_PAGE: Final = "index.html"
CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_GUARDS: Final = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class _File:
    plain: bytes
    compressed: bytes
    media_type: str
    etag: str


class PageRoutes:
    """Serves the page."""

    def __init__(self) -> None:
        found = {
            each.name: each.read_bytes()
            for each in files("ottla.gateway.console").joinpath("static").iterdir()
            if each.name.rpartition(".")[2] in _TYPES
        }
        digest = hashlib.sha256(b"".join(found[name] for name in sorted(found))).hexdigest()[:16]
        found[_PAGE] = found[_PAGE].replace(b"{version}", digest.encode())
        self.digest = digest
        self._files = {name: _file(name, data) for name, data in found.items()}

    def routes(self) -> tuple[Route, ...]:
        page = ("text/html",)
        return (
            Route("GET", "/console", self._page, "The console: a page for browsers.", "console", gives=page),
            Route(
                "GET",
                "/console/static/{version}/{name}",
                self._static,
                "A script or style of the console.",
                "console",
                gives=_GIVES,
                problems=(304, 404),
            ),
        )

    @property
    def compressed_bytes(self) -> int:
        """What a browser loads in all."""
        return sum(len(each.compressed) for each in self._files.values())

    async def _page(self, request: Request) -> Answer:
        return _answer(request, self._files[_PAGE], {**_GUARDS, "Cache-Control": "no-cache"})

    async def _static(self, request: Request) -> Answer:
        found = self._files.get(request.params["name"])
        if found is None or request.params["version"] != self.digest:
            raise HttpError(404, "there is no such file: load the console again")
        return _answer(request, found, {**_GUARDS, "Cache-Control": "public, max-age=31536000, immutable"})


def _answer(request: Request, file: _File, headers: dict[str, str]) -> Answer:
    shown = {**headers, "ETag": file.etag, "Vary": "Accept-Encoding"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Answer(304, headers=shown)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Answer(200, file.compressed, file.media_type, {**shown, "Content-Encoding": "gzip"})
    return Answer(200, file.plain, file.media_type, shown)


def _file(name: str, data: bytes) -> _File:
    media_type = _TYPES[name.rpartition(".")[2]]
    etag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    return _File(data, gzip.compress(data, 9, mtime=0), media_type, etag)
