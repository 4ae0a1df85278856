"""The quorum of one node: what is decided is durable, replayed, carried out and then answered, in that
order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.integration.troubled_disk import TroubledDisk
from tests.unit.server.metadata import Node, creation, eventually, join, running

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.brokers import BrokerHeartbeatRequest
from ottla.protocol.messages.fetch import FetchRequest, FetchTopic
from ottla.raft.messages import METADATA_TOPIC_ID
from ottla.server.quorum.commands import NotControllerError


def told(path: Path, test: Callable[[Node], Awaitable[None]], disk: TroubledDisk | None = None) -> None:
    async def main() -> None:
        async with running(path, disk) as node:
            await test(node)

    asyncio.run(main())


def test_one_node_leads_at_once_and_decides(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        await join(node.quorum)
        response = await node.quorum.submit(creation("t"))
        assert response.topics[0].error_code == 0
        assert node.quorum.is_controller
        assert node.quorum.controller_id == 1
        assert "t" in node.quorum.image.topics_by_name
        assert "t" in node.images[-1].topics_by_name, "it is carried out before it is answered"
        assert node.quorum.describe_trouble() == ""

    told(tmp_path, test)


def test_one_node_does_not_tell_that_it_leads_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(node: Node) -> None:
        await join(node.quorum)

    with caplog.at_level(logging.INFO, "ottla"):
        told(tmp_path, test)
    assert caplog.messages == []


def test_a_restart_remembers_everything_and_begins_a_new_epoch(tmp_path: Path) -> None:
    epochs: list[int] = []

    async def test(node: Node) -> None:
        await join(node.quorum)
        await node.quorum.submit(creation(f"t-{len(epochs)}"))
        assert len(node.quorum.image.topics_by_name) == len(epochs) + 1
        epochs.append(node.quorum.member.replica.epoch)

    for _ in range(3):
        told(tmp_path, test)
    assert epochs == [1, 2, 3]


def test_a_broker_epoch_is_the_offset_of_its_registration(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        await join(node.quorum)
        epoch = node.quorum.image.brokers[1].epoch
        assert epoch > 0, "the record of the election comes first"
        assert node.quorum.image.last_offset == epoch + 1, "then it was let in"

    told(tmp_path, test)


def test_commands_are_carried_out_in_order_each_on_what_the_last_one_left(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        await join(node.quorum)
        asked = [node.quorum.submit(creation(f"t-{number % 5}")) for number in range(10)]
        errors = [response.topics[0].error_code for response in await asyncio.gather(*asked)]
        assert errors == [0] * 5 + [ErrorCode.TOPIC_ALREADY_EXISTS] * 5

    told(tmp_path, test)


def test_who_goes_away_before_its_turn_has_changed_nothing_and_holds_nobody_up(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        await join(node.quorum)
        gone = asyncio.create_task(node.quorum.submit(creation("gone")))
        later = asyncio.create_task(node.quorum.submit(creation("later")))
        await asyncio.sleep(0)
        gone.cancel()
        assert (await later).topics[0].error_code == 0
        assert set(node.quorum.image.topics_by_name) - {"gone"} == {"later"}

    told(tmp_path, test)


def test_what_the_controller_cannot_make_sense_of_fails_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(node: Node) -> None:
        await join(node.quorum)
        with pytest.raises(TypeError):
            await node.quorum.submit(object())
        assert (await node.quorum.submit(creation("t"))).topics[0].error_code == 0

    told(tmp_path, test)
    assert "the command object failed" in caplog.text


def test_a_full_disk_refuses_a_command_and_the_next_one_succeeds(tmp_path: Path) -> None:
    disk = TroubledDisk()

    async def test(node: Node) -> None:
        await join(node.quorum)
        disk.is_full = lambda path: True
        with pytest.raises(KafkaError) as refused:
            await node.quorum.submit(creation("t"))
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.is_full = lambda path: False
        assert (await node.quorum.submit(creation("t"))).topics[0].error_code == 0
        assert not node.halts

    told(tmp_path, test, disk)


def test_after_a_failed_fsync_nothing_is_decided_any_more_but_all_is_answered(tmp_path: Path) -> None:
    disk = TroubledDisk()

    async def test(node: Node) -> None:
        await join(node.quorum)
        disk.fails_sync = lambda path: True
        for _ in range(2):
            with pytest.raises(KafkaError, match="durable") as refused:
                await node.quorum.submit(creation("t"))
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "t" not in node.quorum.image.topics_by_name
        assert "durable" in node.quorum.describe_trouble()
        assert not node.halts, "a node that is alone goes on serving what it has"

    told(tmp_path, test, disk)


def test_a_vote_that_cannot_be_written_is_never_cast(tmp_path: Path) -> None:
    disk = TroubledDisk()
    disk.is_full = lambda path: "quorum-state" in path

    async def test(node: Node) -> None:
        with pytest.raises(KafkaError) as refused:
            await node.quorum.submit(creation("t"), timeout_ms=5_000)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert not node.quorum.is_controller

    told(tmp_path, test, disk)


def test_who_does_not_lead_decides_nothing(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        await join(node.quorum)
        node.quorum.led_by(None, 2)
        with pytest.raises(NotControllerError):
            await node.quorum.decide(creation("t"))
        assert "t" not in node.quorum.image.topics_by_name

    told(tmp_path, test)


def test_a_record_that_this_version_does_not_know_stops_the_node_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(node: Node) -> None:
        await join(node.quorum)
        monkeypatch.setattr(
            "ottla.server.quorum.metadata_log.encode_record", lambda record: b"\x01\xff\x01\x00"
        )
        with pytest.raises(KafkaError):
            await node.quorum.submit(creation("t"))
        await eventually(lambda: bool(node.halts), "it says so")
        assert "cannot be replayed from offset" in node.halts[0]
        with pytest.raises(KafkaError):
            await node.quorum.replayed(10_000)

    told(tmp_path, test)


def test_snapshots_keep_the_log_short_and_a_restart_begins_with_one(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    settings = {"metadata_log_max_record_bytes_between_snapshots": "3000"}

    async def fill() -> None:
        async with running(tmp_path, None, True, **settings) as node:
            await join(node.quorum)
            for number in range(60):
                await node.quorum.submit(creation(f"t-{number}"))
            await eventually(lambda: node.quorum.member.log_start_offset > 20, "the log has become shorter")
            assert len(node.quorum.image.topics_by_name) == 60

    async def read() -> None:
        async with running(tmp_path, None, True, **settings) as node:
            await join(node.quorum)
            assert len(node.quorum.image.topics_by_name) == 60

    asyncio.run(fill())
    assert len(list(directory.glob("*.checkpoint"))) == 2
    asyncio.run(read())


def test_fetches_of_the_metadata_log_are_told_from_others(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        by_id = FetchRequest(topics=[FetchTopic(topic_id=METADATA_TOPIC_ID)])
        by_name = FetchRequest(topics=[FetchTopic(topic="__cluster_metadata")])
        assert node.quorum.is_metadata_fetch(by_id)
        assert node.quorum.is_metadata_fetch(by_name)
        assert not node.quorum.is_metadata_fetch(FetchRequest())
        assert not node.quorum.is_metadata_fetch(FetchRequest(topics=[FetchTopic(topic="t")]))

    told(tmp_path, test)


def test_a_heartbeat_of_a_broker_that_is_well_writes_nothing(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        await join(node.quorum)
        end = node.quorum.member.log_end_offset
        broker = node.quorum.image.brokers[1]
        beat = BrokerHeartbeatRequest(1, broker.epoch, node.quorum.image.last_offset)
        for _ in range(3):
            assert not (await node.quorum.submit(beat)).is_fenced
        assert node.quorum.member.log_end_offset == end

    told(tmp_path, test)


def test_a_heartbeat_does_not_wait_for_a_slow_disk(tmp_path: Path) -> None:
    disk = TroubledDisk()

    async def test(node: Node) -> None:
        await join(node.quorum)
        disk.may_sync.clear()
        slow = asyncio.create_task(node.quorum.submit(creation("t")))
        beat = BrokerHeartbeatRequest(1, node.quorum.image.brokers[1].epoch, node.quorum.image.last_offset)
        assert not (await node.quorum.submit(beat)).is_fenced
        assert not slow.done()
        disk.may_sync.set()
        await slow

    told(tmp_path, test, disk)


def test_a_stopping_node_refuses_what_waits(tmp_path: Path) -> None:
    disk = TroubledDisk()

    async def main() -> None:
        async with running(tmp_path, disk) as node:
            await join(node.quorum)
            disk.syncs.clear()
            disk.may_sync.clear()
            asked = [asyncio.create_task(node.quorum.submit(creation(f"t-{number}"))) for number in range(4)]
            await eventually(lambda: bool(disk.syncs), "the first is being written")
            asyncio.get_running_loop().call_later(0.05, disk.may_sync.set)
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, KafkaError)]
        assert len(refused) == 3, "the one that was being written is written"
        assert {error.code for error in refused} == {ErrorCode.NOT_CONTROLLER}

    asyncio.run(main())
