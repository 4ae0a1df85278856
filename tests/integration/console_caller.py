"""Calls the console's API as its page does."""

from __future__ import annotations

import shlex
from typing import Any
from urllib.parse import urlencode

import click
from tests.integration.gateway_place import GatewayPlace, Reply

from ottla.cli.main import ottla as command_line

API = "/console/api"


class ConsoleCaller:
    """One browser: with the header of the page, and with its cookie after a login."""

    def __init__(self, place: GatewayPlace) -> None:
        self.place = place
        self.cookie = ""

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of an answer, which must be a success."""
        reply = self.ask("GET", path, **query)
        assert reply.status == 200, reply.body
        return reply.json

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Reply:
        given = f"?{urlencode(query)}" if query else ""
        headers = {"X-Ottla-Console": "1"} | ({"Cookie": self.cookie} if self.cookie else {})
        return self.place.call(
            method, f"{API}{path}{given}", body, content_type="application/json", headers=headers
        )

    def preview(self, action: str, **body: Any) -> Any:
        """The plan of an action."""
        reply = self.ask("POST", f"/actions/{action}", {**body, "preview": True})
        assert reply.status == 200, reply.body
        return reply.json

    def act(self, action: str, **body: Any) -> Reply:
        return self.ask("POST", f"/actions/{action}", body)

    def log_in(self, username: str, password: str) -> Reply:
        reply = self.ask("POST", "/session", {"username": username, "password": password})
        if reply.status == 200:
            self.cookie = reply.headers["set-cookie"].partition(";")[0]
        return reply


def parses(line: str) -> None:
    """The command line takes this command: it is parsed, and not run."""
    for part in line.split(" | "):
        if part.startswith("printf"):
            continue  # the text that a command reads
        words = shlex.split(part)
        assert words[0] == "ottla"
        command: click.Command = command_line
        context = click.Context(command, info_name="ottla")
        rest = words[1:]
        while isinstance(command, click.Group):
            found = command.get_command(context, rest[0])
            assert found is not None, line
            command, context, rest = found, click.Context(found, parent=context), rest[1:]
        command.make_context(command.name, rest, parent=context)
