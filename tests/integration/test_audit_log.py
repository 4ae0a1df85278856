"""The audit log of a running broker: refusals, or all decisions, as lines of JSON, bounded in rate (OPS-5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.in_process import broker_thread
from tests.integration.peer import Peer, batch, create_topic, produce
from tests.repository import ROOT

from ottla.config import BrokerConfig, ConfigError
from ottla.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.runtime.rotating_lines import RotatingLines
from ottla.security.acl.checks import CHECKS
from ottla.server.gate.audit import AuditLog
from ottla.server.gate.session import Session

WRITE = CHECKS[ApiKey.PRODUCE][1]


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def audited(directory: Path, which: str, **settings: str) -> dict[str, str]:
    return {
        "authorizer.class.name": "acl",
        "ottla.audit.log": which,
        "ottla.audit.log.file": str(directory / "audit.log"),
        **settings,
    }


def test_refusals_are_written_with_who_from_where_and_what(tmp_path: Path) -> None:
    with broker_thread(tmp_path / "data", audited(tmp_path, "denied")) as broker, Peer(broker.port) as peer:
        assert produce(peer, "orders", batch(b"x")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        # Topics that the answer leaves out are no refusals.
        assert peer.ask(ApiKey.METADATA, 9, MetadataRequest(None)).topics == []
    (line,) = lines_of(tmp_path / "audit.log")
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert list(line) == list(json.loads(page.partition("```json\n")[2].partition("```")[0]))
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "principal": "User:ANONYMOUS",
        "host": "127.0.0.1",
        "client_id": "peer",
        "listener": "PLAINTEXT",
        "api": "PRODUCE",
        "operation": "WRITE",
        "resource_type": "TOPIC",
        "resource": "orders",
        "allowed": False,
    }


def test_all_decisions_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    settings = audited(tmp_path, "all", **{"super.users": "User:ANONYMOUS"})
    with broker_thread(tmp_path / "data", settings) as broker, Peer(broker.port) as peer:
        create_topic(peer, "orders")
    created = [line for line in lines_of(tmp_path / "audit.log") if line["api"] == "CREATE_TOPICS"]
    assert [(line["operation"], line["resource"], line["allowed"]) for line in created] == [
        ("CREATE", "kafka-cluster", True)
    ]


def logged(tmp_path: Path, rate: int, log: Callable[[AuditLog, list[int]], None]) -> list[dict[str, Any]]:
    clock = [1_700_000_000_000]
    settings = audited(tmp_path, "all", **{"ottla.audit.log.max.per.second": str(rate)})
    config = BrokerConfig.from_properties(settings).authorisation
    audit = AuditLog(config, RotatingLines(config.audit_log_file), lambda: clock[0])
    log(audit, clock)
    audit.close()
    return lines_of(tmp_path / "audit.log")


def test_a_flood_is_counted_instead_of_written(tmp_path: Path) -> None:
    session = Session("PLAINTEXT", "10.0.0.7", 1)

    def flood(audit: AuditLog, clock: list[int]) -> None:
        for _ in range(100):
            audit.decided(session, WRITE, WRITE.rights[0], "orders", is_allowed=False)
        clock[0] += 1000
        audit.decided(session, WRITE, WRITE.rights[0], "a\nb", is_allowed=True)

    lines = logged(tmp_path, 5, flood)
    assert len(lines) == 6
    assert (lines[-1]["suppressed"], lines[-1]["resource"]) == (95, "a\nb")


def test_a_full_file_is_renamed_and_old_ones_go(tmp_path: Path) -> None:
    lines = RotatingLines(str(tmp_path / "audit.log"), max_bytes=100)
    for number in range(50):
        lines.write(f"{number:040d}")
    lines.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "audit.log",
        *(f"audit.log.{number}" for number in range(1, 5)),
    ]


def test_a_line_that_cannot_be_written_is_lost_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    lines = RotatingLines("/dev/full")
    for _ in range(3):
        lines.write("a line")
    lines.close()
    assert [message.partition(":")[0] for message in caplog.messages] == ["/dev/full cannot be written"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ottla.audit.log": "all"}, "needs authorizer.class.name"),
        ({"ottla.audit.log": "all", "authorizer.class.name": "acl"}, "needs ottla.audit.log.file"),
        ({"ottla.audit.log": "some"}, "ottla.audit.log"),
    ],
)
def test_an_audit_log_that_would_stay_empty_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        BrokerConfig.from_properties(settings)


def test_a_file_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"audit\.log \(ottla\.audit\.log\.file\) cannot be written"),
        broker_thread(tmp_path / "data", audited(tmp_path / "missing", "all")),
    ):
        pass
