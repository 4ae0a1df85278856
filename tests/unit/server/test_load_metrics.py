"""The load of a broker, in numbers that every client may read (CTL-8)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.runtime.runtime import Runtime
from ottla.server import load_metrics as loads
from ottla.server.load_metrics import Load, Traffic
from ottla.server.partitions.partition_table import Partitions


def partition(end: int, *, leads: bool = True) -> Any:
    status = SimpleNamespace(is_damaged=False)
    return Partition(SimpleNamespace(is_leader=leads), SimpleNamespace(log_end_offset=end, status=status))


@dataclass(eq=False)
class Partition:
    replica: Any
    log: Any
    is_closed: bool = False


def test_rates_are_of_what_happened_since_the_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loads, "_INTERVAL_S", 0.01)
    led, followed = partition(100), partition(100, leads=False)
    traffic = [Traffic(1_000, 5_000)]

    async def main() -> dict[str, str]:
        load = Load(
            str(tmp_path),
            cast(Partitions, [led, followed]),
            lambda: traffic[0],
            Runtime(),
        )
        load.start()
        await asyncio.sleep(0.05)
        led.log.log_end_offset += 300
        followed.log.log_end_offset += 7_000
        traffic[0] = Traffic(2_000, 9_000, 3, 4)
        await asyncio.sleep(0.03)
        entries = load.entries()
        await load.stop()
        return {entry.name: entry.value for entry in entries}

    found = asyncio.run(main())
    assert list(found) == [
        "ottla.load.cpu.percent",
        "ottla.load.resident.bytes",
        "ottla.load.disk.free.bytes",
        "ottla.load.in.bytes.per.second",
        "ottla.load.out.bytes.per.second",
        "ottla.load.in.messages.per.second",
        "ottla.load.damaged.replicas",
        "ottla.load.refused.connections",
        "ottla.load.failed.logins",
    ]
    assert (found["ottla.load.refused.connections"], found["ottla.load.failed.logins"]) == ("3", "4")
    received, sent = (
        int(found["ottla.load.in.bytes.per.second"]),
        int(found["ottla.load.out.bytes.per.second"]),
    )
    assert 1_000 < received < 100_000
    assert sent == pytest.approx(4 * received, rel=0.01)
    assert int(found["ottla.load.in.messages.per.second"]) == pytest.approx(0.3 * received, rel=0.01)
    assert int(found["ottla.load.resident.bytes"]) > 1 << 20
    assert int(found["ottla.load.disk.free.bytes"]) > 0
    assert float(found["ottla.load.cpu.percent"]) >= 0


def test_before_the_first_look_there_is_nothing_to_tell_but_no_error(tmp_path: Path) -> None:
    load = Load(str(tmp_path), cast(Partitions, []), lambda: Traffic(5, 5), Runtime())
    assert {entry.value for entry in load.entries() if "per.second" in entry.name} == {"0"}
