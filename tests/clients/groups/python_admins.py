"""The admin interfaces of the Python clients to groups."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.clients.families.aiokafka_family import run
from tests.clients.families.confluent_family import refused
from tests.clients.families.kafka_python_family import refusals
from tests.clients.families.ottla_family import run as run_ottla
from tests.clients.groups.admin import DescribedGroup, DescribedMember, kafka_name
from tests.clients.groups.model import Committed, Partition
from tests.clients.model import DEADLINE_SECONDS, RefusedError, refuse

import ottla
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.outcomes import succeeded

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.errors
    from kafka import KafkaAdminClient
    from kafka import TopicPartition as KafkaPythonPartition
    from kafka.admin import MemberToRemove
    from kafka.structs import OffsetAndMetadata


class ConfluentGroupAdmin:
    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def _result(self, future: Any) -> Any:
        try:
            return future.result(DEADLINE_SECONDS)
        except KafkaException as error:
            raise refused(error.args[0]) from error

    def list_groups(self) -> dict[str, str | None]:
        answer = self._result(self._admin.list_consumer_groups())
        assert not answer.errors
        return {group.group_id: kafka_name(group.state.name) for group in answer.valid}

    def describe_group(self, group: str) -> DescribedGroup:
        answer = self._result(self._admin.describe_consumer_groups([group])[group])
        members = [
            DescribedMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.host,
                frozenset((one.topic, one.partition) for one in member.assignment.topic_partitions),
            )
            for member in answer.members
        ]
        return DescribedGroup(kafka_name(answer.state.name), answer.partition_assignor, tuple(members))

    def delete_group(self, group: str) -> None:
        self._result(self._admin.delete_consumer_groups([group])[group])

    def offsets(self, group: str) -> list[Committed]:
        asked = [ConsumerGroupTopicPartitions(group)]
        answer = self._result(self._admin.list_consumer_group_offsets(asked)[group])
        return [Committed(o.topic, o.partition, o.offset, o.metadata or "") for o in answer.topic_partitions]

    def alter_offsets(self, group: str, offsets: Sequence[Committed]) -> None:
        wanted = [TopicPartition(o.topic, o.partition, o.offset, o.metadata or "") for o in offsets]
        asked = [ConsumerGroupTopicPartitions(group, wanted)]
        answer = self._result(self._admin.alter_consumer_group_offsets(asked)[group])
        for one in answer.topic_partitions:
            if one.error is not None:
                raise refused(one.error)

    def delete_offsets(self, group: str, partitions: Sequence[Partition]) -> None:
        raise AssertionError("confluent-kafka has no OffsetDelete")

    def remove_instance(self, group: str, instance_id: str) -> None:
        raise AssertionError("confluent-kafka removes no members")


class AiokafkaGroupAdmin:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    async def _ask(self, call: str, *arguments: Any) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        try:
            return await getattr(admin, call)(*arguments)
        finally:
            await admin.close()

    def list_groups(self) -> dict[str, str | None]:
        return {group: None for group, *_ in run(self._ask("list_consumer_groups"))}

    def describe_group(self, group: str) -> DescribedGroup:
        (answer,) = run(self._ask("describe_consumer_groups", [group]))
        ((code, _, state, _, protocol, members, *_),) = answer.groups
        refuse(code)
        return DescribedGroup(state, protocol, tuple(self._member(*member) for member in members))

    def _member(
        self, member_id: str, client_id: str, host: str, _: bytes, assigned: bytes
    ) -> DescribedMember:
        decoded = ConsumerProtocolMemberAssignment.decode(assigned).assignment if assigned else []
        places = frozenset((topic, partition) for topic, partitions in decoded for partition in partitions)
        return DescribedMember(member_id, None, client_id, host, places)

    def delete_group(self, group: str) -> None:
        raise AssertionError("aiokafka deletes no groups")

    def offsets(self, group: str) -> list[Committed]:
        answer = run(self._ask("list_consumer_group_offsets", group))
        return [
            Committed(place.topic, place.partition, one.offset, one.metadata) for place, one in answer.items()
        ]

    def alter_offsets(self, group: str, offsets: Sequence[Committed]) -> None:
        raise AssertionError("aiokafka alters no offsets")

    def delete_offsets(self, group: str, partitions: Sequence[Partition]) -> None:
        raise AssertionError("aiokafka deletes no offsets")

    def remove_instance(self, group: str, instance_id: str) -> None:
        raise AssertionError("aiokafka removes no members")


class OttlaGroupAdmin:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _asked(self, question: Callable[[ottla.Admin], Awaitable[Any]]) -> Any:
        async def ask() -> Any:
            async with ottla.Admin(self._bootstrap) as admin:
                answer = await question(admin)
                return succeeded(answer) if isinstance(answer, dict) else answer

        return run_ottla(ask())

    def list_groups(self) -> dict[str, str | None]:
        return {group.group_id: group.state for group in self._asked(lambda admin: admin.list_groups())}

    def describe_group(self, group: str) -> DescribedGroup:
        answer = self._asked(lambda admin: admin.describe_groups([group]))[group]
        members = [
            DescribedMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                frozenset((one.topic, one.partition) for one in member.assignment),
            )
            for member in answer.members
        ]
        return DescribedGroup(answer.state, answer.protocol, tuple(members))

    def delete_group(self, group: str) -> None:
        self._asked(lambda admin: admin.delete_groups([group]))

    def offsets(self, group: str) -> list[Committed]:
        answer = self._asked(lambda admin: admin.list_group_offsets(group))
        return [
            Committed(place.topic, place.partition, one.offset, one.metadata) for place, one in answer.items()
        ]

    def alter_offsets(self, group: str, offsets: Sequence[Committed]) -> None:
        wanted = {
            ottla.TopicPartition(o.topic, o.partition): CommittedOffset(o.offset, metadata=o.metadata or "")
            for o in offsets
        }
        self._asked(lambda admin: admin.alter_group_offsets(group, wanted))

    def delete_offsets(self, group: str, partitions: Sequence[Partition]) -> None:
        wanted = [ottla.TopicPartition(*place) for place in partitions]
        self._asked(lambda admin: admin.delete_group_offsets(group, wanted))

    def remove_instance(self, group: str, instance_id: str) -> None:
        self._asked(lambda admin: admin.remove_members(group, instances=[instance_id]))


class KafkaPythonGroupAdmin:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _ask(self, call: str, *arguments: Any) -> Any:
        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        try:
            with refusals():
                return getattr(admin, call)(*arguments)
        finally:
            admin.close()

    def _check(self, outcomes: dict[Any, Any]) -> None:
        """It answers classes of errors, or their names, per item."""
        for outcome in outcomes.values():
            error = getattr(kafka.errors, outcome, None) if isinstance(outcome, str) else outcome
            if error is not None:
                refuse(error.errno, error.__name__)

    def list_groups(self) -> dict[str, str | None]:
        return {group["group_id"]: group["group_state"] for group in self._ask("list_groups")}

    def describe_group(self, group: str) -> DescribedGroup:
        answer = self._ask("describe_groups", [group])[group]
        if answer["error"] is not None:
            raise RefusedError("GROUP_ID_NOT_FOUND" if "[Error 69]" in answer["error"] else answer["error"])
        members = tuple(self._member(member) for member in answer["members"])
        return DescribedGroup(answer["group_state"], answer["protocol_data"], members)

    def _member(self, member: dict[str, Any]) -> DescribedMember:
        assigned = member["member_assignment"]["assigned_partitions"] if member["member_assignment"] else ()
        places = frozenset((one["topic"], index) for one in assigned for index in one["partitions"])
        return DescribedMember(
            member["member_id"],
            member["group_instance_id"],
            member["client_id"],
            member["client_host"],
            places,
        )

    def delete_group(self, group: str) -> None:
        self._check(self._ask("delete_groups", [group]))

    def offsets(self, group: str) -> list[Committed]:
        answer = self._ask("list_group_offsets", {group: None})[group]
        return [
            Committed(place.topic, place.partition, one.offset, one.metadata) for place, one in answer.items()
        ]

    def alter_offsets(self, group: str, offsets: Sequence[Committed]) -> None:
        wanted = {
            KafkaPythonPartition(o.topic, o.partition): OffsetAndMetadata(o.offset, o.metadata or "", -1)
            for o in offsets
        }
        self._check(self._ask("alter_group_offsets", group, wanted))

    def delete_offsets(self, group: str, partitions: Sequence[Partition]) -> None:
        wanted = [KafkaPythonPartition(*place) for place in partitions]
        self._check(self._ask("delete_group_offsets", group, wanted))

    def remove_instance(self, group: str, instance_id: str) -> None:
        self._check(self._ask("remove_group_members", group, [MemberToRemove(group_instance_id=instance_id)]))
