"""Members taken out of a group by an administrator: whose partitions the others get at once (GRP-4).

Runs against Ottla, and, where Apache Kafka can be fetched (`-m compat`), against that too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from tests.conftest import start
from tests.integration.awaiting import awaited, until
from tests.integration.consuming import SETTINGS, described, member, reading
from tests.integration.peer import Peer, create_topic

import ottla.blocking
from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer
from ottla.client.requests.outcomes import succeeded
from ottla.errors import ErrorCode, KafkaError
from ottla.localcluster.broker_process import BrokerProcess, running

# Nobody's session ends before the test does: partitions come free only because somebody was removed.
PATIENT_MS = 120_000
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def node(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(start(target, tmp_path_factory.mktemp("removal") / "data", SETTINGS)) as process:
        yield process


@pytest.fixture
def group(node: BrokerProcess) -> str:
    """The name of a group, and of a topic with four partitions."""
    name = f"removal{next(NUMBERS)}"
    with Peer(node.port) as peer:
        create_topic(peer, name, partitions=4)
    return name


def static(node: BrokerProcess, group: str, instance: str) -> Consumer:
    return member(node, group, group_instance_id=instance, session_timeout_ms=PATIENT_MS)


async def leave_a_slot(node: BrokerProcess, group: str, instance: str) -> None:
    """A static member that got everything, and stopped: its place is kept."""
    async with reading(static(node, group, instance), group) as gone:
        await until(lambda: len(gone.consumer.assignment) == 4)
    assert [each.group_instance_id for each in (await described(node, group)).members] == [instance]


def test_the_slot_of_a_static_member_is_free_at_once(node: BrokerProcess, group: str) -> None:
    async def body() -> None:
        async with reading(static(node, group, "stays"), group) as stays, Admin(node.bootstrap) as admin:
            async with reading(static(node, group, "gone"), group) as gone:
                await until(lambda: [len(each.consumer.assignment) for each in (stays, gone)] == [2, 2])
            outcomes = await admin.remove_members(group, instances=["gone", "never"], reason="it burnt")
            assert outcomes["gone"] is None
            refused = outcomes["never"]
            assert isinstance(refused, KafkaError)
            assert (refused.code, refused.message) == (
                ErrorCode.UNKNOWN_MEMBER_ID,
                f'the group "{group}" has no member "never"',
            )
            await until(lambda: len(stays.consumer.assignment) == 4)

    awaited(body)


def test_without_names_everybody_goes(node: BrokerProcess, group: str) -> None:
    async def body() -> None:
        await leave_a_slot(node, group, "gone")
        async with Admin(node.bootstrap) as admin:
            assert await admin.remove_members(group, members=[], instances=[]) == {}
            assert len((await described(node, group)).members) == 1
            assert await admin.remove_members(group) == {"gone": None}
            assert (await described(node, group)).state == "Empty"
            assert await admin.remove_members(group) == {}

    awaited(body)


def test_who_still_runs_joins_again(node: BrokerProcess, group: str) -> None:
    async def body() -> None:
        runs = member(node, group, session_timeout_ms=PATIENT_MS)
        async with reading(runs, group), Admin(node.bootstrap) as admin:
            await until(lambda: len(runs.assignment) == 4)
            before = runs.member_id
            assert succeeded(await admin.remove_members(group, members=[before])) == {before: None}
            await until(lambda: runs.member_id not in ("", before) and len(runs.assignment) == 4)

    awaited(body)


def test_a_group_that_is_not_there_has_nobody_to_remove(node: BrokerProcess) -> None:
    async def body() -> None:
        async with Admin(node.bootstrap) as admin:
            with pytest.raises(KafkaError, match='there is no group "nobody"'):
                await admin.remove_members("nobody")
            (refused,) = (await admin.remove_members("nobody", members=["x"])).values()
            assert isinstance(refused, KafkaError)
            assert refused.message == 'the group "nobody" has no member "x"'

    awaited(body)


def test_without_asyncio_it_is_the_same(node: BrokerProcess, group: str) -> None:
    async def body() -> None:
        await leave_a_slot(node, group, "gone")

    awaited(body)
    with ottla.blocking.Admin(node.bootstrap) as admin:
        assert admin.remove_members(group, instances=["gone"]) == {"gone": None}
        assert admin.remove_members(group) == {}
