"""A page about the gateway's routes, made from their table. It loads nothing, neither from here nor from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape

from ottla.gateway.http.machine.openapi import statuses
from ottla.gateway.http.machine.routes import Route

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:#222;background:#fff}
code,pre{font:13px/1.5 ui-monospace,monospace}summary{cursor:pointer;padding:.3em 0}h2{border-bottom:1px solid #ccc}
pre{background:#f5f5f5;padding:.6em;overflow:auto}.m{display:inline-block;width:5em;font-weight:600}
td,th{text-align:left;padding:.1em 1em .1em 0;vertical-align:top}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre{background:#262626}}
"""
# Scripts, frames and everything from elsewhere are forbidden to the page itself.
CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def docs_page(routes: Iterable[Route], version: str) -> str:
    """The HTML."""
    by_tag: dict[str, list[Route]] = {}
    for route in routes:
        by_tag.setdefault(route.tag, []).append(route)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Ottla's gateway</title>",
        f"<style>{_STYLE}</style><h1>Ottla's gateway {escape(version)}</h1>",
        '<p>For programs: <a href="/openapi.json">openapi.json</a>.</p>',
    ]
    for tag, listed in by_tag.items():
        parts += [f"<h2>{escape(tag)}</h2>", *map(_entry, listed)]
    return "\n".join(parts)


def _entry(route: Route) -> str:
    method = "WS" if route.is_socket else route.method
    parts = [
        f"<details><summary><code><span class=m>{escape(method)}</span>{escape(route.path)}</code> ",
        f"{escape(route.summary)}</summary>",
    ]
    if route.parameters:
        rows = (
            f"<tr><td><code>{escape(each.name)}</code><td>{escape(each.type)}<td>{escape(each.doc)}"
            for each in route.parameters
        )
        parts.append(f"<table>{''.join(rows)}</table>")
    if route.body != "none":
        parts.append(
            f"<p>Body ({escape(', '.join(route.takes))}):</p><pre>{_shown(dict(route.body_schema))}</pre>"
        )
    if route.answer_schema:
        parts.append(
            f"<p>Answer ({escape(', '.join(route.gives))}):</p><pre>{_shown(dict(route.answer_schema))}</pre>"
        )
    parts.append(f"<p>Statuses: {', '.join(map(str, statuses(route)))}</p></details>")
    return "".join(parts)


def _shown(schema: dict[str, object]) -> str:
    return escape(json.dumps(schema, indent=1))
