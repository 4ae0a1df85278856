"""Compatibility levels and modes, of all or of one subject."""

from __future__ import annotations

from typing import Any

from ottla.gateway.http.machine.message import Request
from ottla.gateway.http.machine.parameters import Parameter
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.registry.door import Door, Entry, body_of, subject_of
from ottla.gateway.registry.machine import settings

_IN_FORCE = Parameter(
    "defaultToGlobal", "Whether to answer with what is in force for the subject.", "boolean", False
)
_FORCE = Parameter("force", "Whether to go over to IMPORT though there are schemas.", "boolean", False)


class SettingRoutes:
    """The routes below /config and /mode."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._registry = door.registry

    def routes(self) -> list[Route]:
        entries: list[Entry] = []
        for end, whose in (("", "of all subjects"), ("/{subject}", "of a subject")):
            entries += [
                Entry("GET", f"/config{end}", self._settings, f"The settings {whose}.", (_IN_FORCE,)),
                Entry("PUT", f"/config{end}", self._set_settings, f"Change the settings {whose}."),
                Entry("DELETE", f"/config{end}", self._delete_settings, f"Remove the settings {whose}."),
                Entry("GET", f"/mode{end}", self._mode, f"The mode {whose}.", (_IN_FORCE,)),
                Entry("PUT", f"/mode{end}", self._set_mode, f"Change the mode {whose}.", (_FORCE,)),
                Entry("DELETE", f"/mode{end}", self._delete_mode, f"Remove the mode {whose}."),
            ]
        return self._door.routes(tuple(entries))

    async def _settings(self, request: Request) -> dict[str, Any]:
        scope, in_force = settings.scope_of(subject_of(request)), request.query["defaultToGlobal"]
        return await self._registry.ask(
            lambda catalog: settings.settings_shown(catalog, scope, in_force=in_force)
        )

    async def _set_settings(self, request: Request) -> Any:
        scope, given = settings.scope_of(subject_of(request)), body_of(request)
        return await self._registry.change(
            self._door.security(request), lambda catalog: settings.set_settings(catalog, scope, given)
        )

    async def _delete_settings(self, request: Request) -> Any:
        scope = settings.scope_of(subject_of(request))
        return await self._registry.change(
            self._door.security(request), lambda catalog: settings.delete_settings(catalog, scope)
        )

    async def _mode(self, request: Request) -> dict[str, Any]:
        scope, in_force = settings.scope_of(subject_of(request)), request.query["defaultToGlobal"]
        return await self._registry.ask(
            lambda catalog: settings.mode_shown(catalog, scope, in_force=in_force)
        )

    async def _set_mode(self, request: Request) -> Any:
        scope, name, force = (
            settings.scope_of(subject_of(request)),
            body_of(request).get("mode"),
            request.query["force"],
        )
        return await self._registry.change(
            self._door.security(request), lambda catalog: settings.set_mode(catalog, scope, name, force=force)
        )

    async def _delete_mode(self, request: Request) -> Any:
        scope = settings.scope_of(subject_of(request))
        return await self._registry.change(
            self._door.security(request), lambda catalog: settings.delete_mode(catalog, scope)
        )
