"""The audit log: one line of JSON for each decision about a right: who, from where, what, on what, allowed or not.

Resources that an answer silently leaves out are no refusals, and have no line. A request that the produce fast path
recognises has none either: the line of the request that it repeats stands for it. Beyond a number of lines per second
decisions are counted instead of written, and the next line has their number.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime

from ottla.config import AuthorisationConfig, ConfigError
from ottla.runtime.rotating_lines import RotatingLines
from ottla.security.acl.checks import Check, Refusal, Right
from ottla.security.acl.rules import CLUSTER_NAME, ResourceType
from ottla.security.quota.token_bucket import TokenBucket
from ottla.server.gate.session import Session

_SILENT = (Refusal.HIDDEN, Refusal.MASKED)


class AuditLog:
    """Writes decisions to `lines`. `wall_ms` is the time of day."""

    def __init__(self, config: AuthorisationConfig, lines: RotatingLines, wall_ms: Callable[[], int]) -> None:
        self._writes_allowed = config.audit_log == "all"
        self._lines = lines
        self._wall_ms = wall_ms
        self._bucket = TokenBucket(config.audit_log_max_per_second, 1, wall_ms())
        self._suppressed = 0

    def decided(self, session: Session, check: Check, right: Right, name: str, *, is_allowed: bool) -> None:
        """Account for a decision about a right on the resource of this name."""
        if check.refusal in _SILENT or (is_allowed and not self._writes_allowed):
            return
        now_ms = self._wall_ms()
        if self._bucket.take(1, now_ms):
            self._bucket.give_back(1)
            self._suppressed += 1
            return
        of_cluster = right.resource_type is ResourceType.CLUSTER
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "principal": str(session.principal),
            "host": session.host,
            "client_id": session.client_id,
            "listener": session.listener,
            "api": check.api.name,
            "operation": right.operation.name,
            "resource_type": right.resource_type.name,
            "resource": CLUSTER_NAME if of_cluster else name,
            "allowed": is_allowed,
        }
        if self._suppressed:
            line["suppressed"], self._suppressed = self._suppressed, 0
        self._lines.write(json.dumps(line))

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


def open_audit_log(config: AuthorisationConfig, wall_ms: Callable[[], int]) -> AuditLog:
    """The audit log in its file; ConfigError if the file cannot be written."""
    try:
        return AuditLog(config, RotatingLines(config.audit_log_file), wall_ms)
    except OSError as error:
        raise ConfigError(
            f"{config.audit_log_file} (ottla.audit.log.file) cannot be written: {error.strerror or error}."
        ) from error
