"""`ottla tiers`, the page docs/tiers.md and the script that needs nothing of Ottla, on a broker with a store."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.command_line import ottla_here
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, create_topic
from tests.integration.test_tiers import COUNT, TIERED, fill, objects, settings, tiered
from tests.repository import ROOT

from ottla.config import BrokerConfig, TopicConfig
from ottla.config.setting import settings_by_name
from ottla.localcluster.waiting import wait_until

TOPIC = "events"
PAGE = (ROOT / "docs" / "tiers.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tier")


@pytest.fixture(scope="module")
def tiering(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Iterator[BrokerThread]:
    """A broker with a topic of which the store holds the most, and copies nothing any more."""
    with broker_thread(tmp_path_factory.mktemp("tiering") / "data", settings(store)) as broker:
        with Peer(broker.port) as peer:
            tiered(broker, peer, TOPIC)
            wait_until(lambda: lag(broker) == 0, "all closed segments are copied")
        yield broker


def address(broker: BrokerThread) -> str:
    return f"127.0.0.1:{broker.port}"


def shown(broker: BrokerThread, *arguments: str) -> Any:
    done = ottla_here("tiers", *arguments, "--json", bootstrap=address(broker))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def lag(broker: BrokerThread) -> int:
    return int(shown(broker, "list")["partitions"][0]["lag_records"])


def test_a_partition_is_shown_with_its_starts_and_ends(tiering: BrokerThread, store: Path) -> None:
    before = tiering.log(TOPIC).log_start_offset  # local retention may go on meanwhile
    found = shown(tiering, "list", TOPIC)
    (partition,) = found["partitions"]
    assert found["store"] == f"file://{store}"
    assert partition["log_start_offset"] == 0
    assert 0 < before <= partition["local_start_offset"] <= tiering.log(TOPIC).log_start_offset
    assert COUNT - 8 < partition["remote_next_offset"] < COUNT
    table = ottla_here("tiers", "list", bootstrap=address(tiering)).stdout
    assert TOPIC in table
    assert "local start" in table


def test_every_segment_is_shown_with_its_objects(tiering: BrokerThread, store: Path) -> None:
    (partition,) = shown(tiering, "describe", TOPIC)["partitions"]
    segments = [each for each in partition["segments"] if each["state"] == "copied"]
    assert [each["base_offset"] for each in segments[1:]] == [each["next_offset"] for each in segments[:-1]]
    assert sum(len(each["objects"]) for each in segments) == len(objects(store, TOPIC))
    assert "copied" in ottla_here("tiers", "describe", TOPIC, bootstrap=address(tiering)).stdout
    unknown = ottla_here("tiers", "describe", "nothing", bootstrap=address(tiering))
    assert unknown.returncode == 1
    assert "has no tiered storage" in unknown.stderr


def test_missing_damaged_and_orphaned_objects_are_found_and_orphans_removed(
    tiering: BrokerThread, store: Path
) -> None:
    healthy = ottla_here("tiers", "check", "--deep", bootstrap=address(tiering))
    assert healthy.returncode == 0, healthy.stdout
    logs = [path for path in objects(store, TOPIC) if path.suffix == ".log"]
    right = logs[0].read_bytes(), logs[1].read_bytes(), logs[2].read_bytes()
    orphan = logs[0].with_name(f"{7:020d}-{'A' * 22}.log")
    orphan.write_bytes(b"left behind")
    (store / "notes.txt").write_text("somebody else's")
    logs[0].write_bytes(right[0][:-1])
    logs[1].write_bytes(right[1][:-1] + b"!")
    logs[2].unlink()
    try:
        quick = ottla_here("tiers", "check", bootstrap=address(tiering))
        assert quick.returncode == 1
        assert f"{logs[0].name} has {len(right[0]) - 1} bytes" in quick.stdout
        assert f"{logs[2].name} is missing" in quick.stdout
        assert f"{orphan.name} is an orphan of 11 bytes" in quick.stdout
        assert "1 other objects were passed over" in quick.stdout
        deep = ottla_here("tiers", "check", "--deep", bootstrap=address(tiering))
        assert f"{logs[1].name} the store gave other bytes back" in deep.stdout
        young = ottla_here("tiers", "repair", "--yes", bootstrap=address(tiering))
        assert "1 orphans are younger than 60 minutes and stay" in young.stdout
        assert orphan.exists()
        ottla_here("tiers", "repair", "--yes", "--older-than", "0", bootstrap=address(tiering))
        assert not orphan.exists()
        assert (store / "notes.txt").exists()
    finally:
        for path, data in zip(logs, right, strict=False):
            path.write_bytes(data)
    assert ottla_here("tiers", "check", "--deep", bootstrap=address(tiering)).returncode == 0


def test_topics_describe_shows_both_parts(tiering: BrokerThread) -> None:
    done = ottla_here("topics", "describe", TOPIC, "--json", bootstrap=address(tiering))
    (topic,) = json.loads(done.stdout)
    (partition,) = topic["partitions"]
    assert partition["log_start_offset"] == 0
    assert partition["local_start_offset"] == tiering.log(TOPIC).log_start_offset > 0
    assert partition["latest_tiered_offset"] >= partition["local_start_offset"] - 1
    assert "last in store" in ottla_here("topics", "describe", TOPIC, bootstrap=address(tiering)).stdout


def test_doctor_tells_of_a_store_that_cannot_be_used(tiering: BrokerThread, tmp_path: Path) -> None:
    healthy = ottla_here("doctor", "--bootstrap", address(tiering), bootstrap=address(tiering))
    assert "object store" not in healthy.stdout
    (tmp_path / "file").write_text("")
    with broker_thread(tmp_path / "data", settings(tmp_path / "file" / "tier")) as broker:
        with Peer(broker.port) as peer:
            create_topic(peer, "stuck", **TIERED)
            fill(peer, "stuck")
        assert broker.broker.partitions.find("stuck", 0) is not None
        wait_until(lambda: "cannot be made" in _doctor(broker), "the doctor knows")


def _doctor(broker: BrokerThread) -> str:
    return ottla_here("doctor", "--bootstrap", address(broker), bootstrap=address(broker)).stdout


def test_a_broker_without_tiered_storage_says_what_to_set(tmp_path: Path) -> None:
    with broker_thread(tmp_path / "data") as broker:
        done = ottla_here("tiers", "list", bootstrap=address(broker))
    assert done.returncode == 1
    assert "remote.log.storage.system.enable" in done.stderr


def test_the_script_reads_the_topic_back_with_nothing_of_ottla(tiering: BrokerThread, store: Path) -> None:
    script = ROOT / "examples" / "read_tier.py"
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 50
    assert "import ottla" not in text
    command = next(line for line in PAGE.splitlines() if "examples/read_tier.py file" in line)
    assert command == "python examples/read_tier.py file:///tmp/tier events 0"
    done = subprocess.run(
        [sys.executable, str(script), f"file://{store}", TOPIC, "0"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    lines = [line.split(" ", 3) for line in done.stdout.splitlines()]
    (partition,) = shown(tiering, "list", TOPIC)["partitions"]
    assert [int(line[0]) for line in lines] == list(range(partition["remote_next_offset"]))
    assert lines[7][3].startswith("b'7...")


def test_the_page_names_settings_that_exist(tiering: BrokerThread) -> None:
    known = {**settings_by_name(BrokerConfig), **settings_by_name(TopicConfig)}
    named = {word.strip("`,.;:()|").partition("=")[0] for word in PAGE.split() if word.startswith("`")}
    settings_named = {
        name for name in named if name.startswith(("remote.", "local.retention", "ottla.remote"))
    }
    assert len(settings_named) >= 6
    assert settings_named - {"local.retention"} <= known.keys()
    for line in PAGE.splitlines():
        if line.startswith("ottla tiers"):
            arguments = line.split()[1:]
            more = ["--yes"] if "repair" in line else []
            assert ottla_here(*arguments, *more, bootstrap=address(tiering)).returncode == 0, line


def test_the_commands_of_the_page_start_a_broker_and_create_a_topic(tmp_path: Path) -> None:
    lines = PAGE.replace("\\\n", " ").splitlines()
    serve = next(line.split() for line in lines if line.startswith("ottla serve"))
    given = dict(word.split("=", 1) for word in serve if "=" in word)
    given["ottla.remote.store.url"] = f"file://{tmp_path / 'tier'}"
    create = next(line.split()[1:] for line in lines if line.startswith("ottla topics create"))
    with broker_thread(tmp_path / "data", given) as broker:
        assert ottla_here(*create, bootstrap=address(broker)).returncode == 0
        assert shown(broker, "list")["partitions"][0]["topic"] == "events"
