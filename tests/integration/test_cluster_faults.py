"""A cluster of real processes under faults (CHK-2, CHK-4, REP-8, REP-10): a leader that is killed, a follower
that is cut off, a leader that changes during a produce, a duplicate member, a torn write, zombies, an ISR
that shrinks to nothing.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from tests.chaos.faults import make_whole
from tests.chaos.replicas import LATEST, differing_replicas, read_partition
from tests.clusters import ObservedCluster, eventually, observed_cluster
from tests.integration import group_members
from tests.integration.group_members import Member, offset_of
from tests.integration.peer import PRODUCE_VERSION, Peer, batch, list_offset, produce, produce_request

from ottla.cli.main import ottla
from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.records.batch import iter_batches

LAG_TIME_S = 2.0
SETTINGS = {
    "replica.lag.time.max.ms": str(int(LAG_TIME_S * 1000)),
    "broker.session.timeout.ms": "2000",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
}
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObservedCluster]:
    """Three brokers behind a proxy; every test leaves all of them running and connected."""
    data = tmp_path_factory.mktemp("faults")
    with observed_cluster(data, has_proxy=True, settings=SETTINGS) as running:
        yield running


@pytest.fixture(autouse=True)
def whole(cluster: ObservedCluster) -> Iterator[None]:
    """What a failed test leaves undone must not trouble the next."""
    yield
    make_whole(cluster)


@pytest.fixture
def topic(cluster: ObservedCluster) -> str:
    """Three partitions, three replicas each."""
    name = f"topic{next(_NUMBERS)}"
    cluster.create_topic(name, 3)
    return name


def values(cluster: ObservedCluster, topic: str, partition: int = 0) -> list[str]:
    """What a partition holds, as its leader tells; offsets are dense."""
    with cluster.peer(cluster.leader_of(topic, partition)) as peer:
        records = read_partition(peer, topic, partition)
    assert [offset for offset, _ in records] == list(range(len(records)))
    return [value for _, value in records]


def write(cluster: ObservedCluster, topic: str, value: bytes, acks: int = -1, **options: Any) -> int:
    """Write one record to partition 0 at its leader; the offset it got."""
    with cluster.peer(cluster.leader_of(topic)) as peer:
        answer = produce(peer, topic, batch(value, **options), acks=acks)
    assert answer.error_code == 0, ErrorCode(answer.error_code).name
    return answer.base_offset


def log_end_offset_on_disk(cluster: ObservedCluster, node_id: int, topic: str, partition: int = 0) -> int:
    """Where a replica's log ends, by its files."""
    directory = cluster.directory_of(node_id) / f"{topic}-{partition}"
    ends = [
        each.next_offset
        for segment in sorted(directory.glob("*.log"))
        for each in iter_batches(segment.read_bytes(), allow_partial_end=True)
    ]
    return ends[-1] if ends else 0


def apart(cluster: ObservedCluster, topic: str) -> tuple[int, int, int]:
    """A partition that the controller does not lead: its number, its leader, and the follower that is not the
    controller.
    """
    controller = cluster.controller()
    for partition, view in cluster.partitions(topic).items():
        if view.leader != controller:
            (follower,) = {*view.replicas} - {view.leader, controller}
            return partition, view.leader, follower
    raise AssertionError("the controller leads everything")


def coordinator_port(cluster: ObservedCluster, group: str) -> int:
    found: list[int] = []

    def is_found() -> bool:
        with cluster.peer(cluster.running[0]) as peer:
            answer = peer.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=[group]))
        found[:] = [each.node_id for each in answer.coordinators if each.error_code == 0]
        return bool(found) and found[0] in cluster.running

    eventually(is_found, f"{group} has a coordinator")
    return cluster.port_of(found[0])


def move_coordinator(cluster: ObservedCluster, group: str) -> int:
    """Kill the group's coordinator; answers the broker that was it."""
    port = coordinator_port(cluster, group)
    node_id = next(each for each in cluster.ids if cluster.port_of(each) == port)
    cluster.kill(node_id)
    return node_id


def test_chk_2_the_leader_is_killed_with_records_in_flight(cluster: ObservedCluster, topic: str) -> None:
    """All acknowledged once, none duplicated, none lost."""
    acknowledged: dict[str, list[int]] = {}
    failed: list[str] = []

    def on_delivery(error: object, message: Any) -> None:
        if error is None:
            acknowledged.setdefault(message.value().decode(), []).append(message.offset())
        else:
            failed.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 1,
            "log_level": 0,
        }
    )
    sent = [f"record {number}" for number in range(3_000)]
    victim = cluster.leader_of(topic)
    killer = threading.Thread(target=cluster.kill, args=(victim,))
    for number, value in enumerate(sent):
        producer.produce(topic, value.encode(), partition=0, on_delivery=on_delivery)
        producer.poll(0.0005)
        if number == 1_000:
            killer.start()  # while the others are on their way
    assert producer.flush(60) == 0
    killer.join()
    cluster.start_broker(victim)
    cluster.await_in_sync(topic)
    assert failed == []
    assert sorted(acknowledged) == sorted(sent)
    assert values(cluster, topic) == sent
    assert all(sent[offset] == value for value, (offset,) in acknowledged.items())


def test_chk_4_a_follower_is_cut_off_and_comes_back(cluster: ObservedCluster, topic: str) -> None:
    """The ISR shrinks after the lag time, writes go on, it catches up and rejoins; the watermark waits for
    the slowest in it.
    """
    partition, leader, follower = apart(cluster, topic)
    with cluster.peer(leader) as peer:
        assert produce(peer, topic, batch(b"before"), partition=partition).error_code == 0
        wait_until(
            lambda: log_end_offset_on_disk(cluster, follower, topic, partition) == 1, "it has the record"
        )
        cluster.cut(leader, follower)
        cut_at = time.monotonic()
        assert produce(peer, topic, batch(b"first"), partition=partition, acks=1).error_code == 0
        while follower in cluster.partitions(topic)[partition].isr:
            watermark = list_offset(peer, topic, LATEST, partition=partition).offset
            in_sync = cluster.partitions(topic)[partition].isr
            assert follower not in in_sync or watermark <= 1, "the watermark passed a member of the ISR"
            assert time.monotonic() < cut_at + 10 * LAG_TIME_S, "the ISR does not shrink"
        assert time.monotonic() >= cut_at + LAG_TIME_S * 0.5
        written = produce(peer, topic, batch(b"second"), partition=partition)
        assert (written.error_code, written.base_offset) == (0, 2)
        assert log_end_offset_on_disk(cluster, follower, topic, partition) == 1
        cluster.heal()
        cluster.await_in_sync(topic)
        assert log_end_offset_on_disk(cluster, follower, topic, partition) == 3
    assert values(cluster, topic, partition) == ["before", "first", "second"]


def test_leader_change_during_produce(cluster: ObservedCluster, topic: str) -> None:
    """The leader has appended a record and dies before anybody copied it: the retry is written once, the old
    copy goes.
    """
    leader = cluster.leader_of(topic)
    producer_id: dict[str, Any] = {"producer_id": 4_000_000, "producer_epoch": 0}
    write(cluster, topic, b"one", base_sequence=0, **producer_id)
    cluster.cut(leader)
    with cluster.peer(leader) as peer:
        second = batch(b"two", base_sequence=1, **producer_id)
        peer.send(ApiKey.PRODUCE, PRODUCE_VERSION, produce_request(topic, second))
        wait_until(lambda: log_end_offset_on_disk(cluster, leader, topic) == 2, "the leader has appended it")
        cluster.kill(leader)
        assert peer.is_closed()
    cluster.heal()
    eventually(lambda: cluster.partitions(topic)[0].leader not in (-1, leader), "another leads")
    assert write(cluster, topic, b"two", base_sequence=1, **producer_id) == 1
    assert write(cluster, topic, b"two", base_sequence=1, **producer_id) == 1, "sent again, not written again"
    assert write(cluster, topic, b"three", base_sequence=2, **producer_id) == 2
    cluster.start_broker(leader)
    cluster.await_in_sync(topic)
    assert values(cluster, topic) == ["one", "two", "three"]
    assert_replicas_match(cluster, topic)


def test_duplicate_member(cluster: ObservedCluster, topic: str) -> None:
    """A consumer that restarts under its name takes its old place; the instance before is fenced, wherever it
    asks.
    """
    group = f"group-{topic}"
    old = Member(coordinator_port(cluster, group), group, instance="consumer-a")
    group_members.formed([old])
    assert old.commit(topic, 1) == 0
    new = Member(coordinator_port(cluster, group), group, instance="consumer-a")
    assert group_members.joined([new])[0].error_code == 0
    assert new.member_id != old.member_id
    assert old.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert old.commit(topic, 9) in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
    assert new.heartbeat() == 0
    assert new.commit(topic, 2) == 0
    victim = move_coordinator(cluster, group)
    for member in (old, new):
        member.peer.socket.close()
        member.peer = Peer(coordinator_port(cluster, group))
    settled(new, 0)
    assert old.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert offset_of(new.peer, group, topic) == 2
    for member in (old, new):
        member.peer.socket.close()
    cluster.start_broker(victim)
    cluster.await_in_sync(topic)


def settled(member: Member, wanted: int) -> None:
    """Heartbeat until the coordinator has loaded its groups."""
    loading = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
    answers: list[int] = []

    def is_loaded() -> bool:
        answers.append(member.heartbeat())
        return answers[-1] not in loading

    eventually(is_loaded, "the coordinator has loaded the group")
    assert answers[-1] == wanted


def test_torn_write(cluster: ObservedCluster, topic: str) -> None:
    """A broker dies in the middle of a write: what is torn is cut away and fetched again."""
    for number in range(20):
        write(cluster, topic, b"%d" % number)
    leader = cluster.leader_of(topic)
    follower = next(each for each in cluster.ids if each != leader)
    wait_until(lambda: log_end_offset_on_disk(cluster, follower, topic) == 20, "it has all records")
    cluster.kill(follower)
    (segment,) = (cluster.directory_of(follower) / f"{topic}-0").glob("*.log")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-30])
    write(cluster, topic, b"20")
    cluster.start_broker(follower)
    cluster.await_in_sync(topic)
    assert log_end_offset_on_disk(cluster, follower, topic) == 21
    assert_replicas_match(cluster, topic)
    assert values(cluster, topic) == [str(number) for number in range(21)]


def test_torn_write_of_the_leader(cluster: ObservedCluster, topic: str) -> None:
    """The same for a leader: others have what it lost, one of them leads, and gives it back."""
    for number in range(20):
        write(cluster, topic, b"%d" % number)
    leader = cluster.leader_of(topic)
    cluster.kill(leader)
    (segment,) = (cluster.directory_of(leader) / f"{topic}-0").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-30] + bytes(200))
    eventually(lambda: cluster.partitions(topic)[0].leader not in (-1, leader), "another leads")
    write(cluster, topic, b"20")
    cluster.start_broker(leader)
    cluster.await_in_sync(topic)
    assert_replicas_match(cluster, topic)
    assert values(cluster, topic) == [str(number) for number in range(21)]


def test_zombie_consumer(cluster: ObservedCluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that was given up and does not know it commits nothing, not even at the next coordinator."""
    monkeypatch.setattr(group_members, "SESSION_MS", 500)
    group = f"group-{topic}"
    zombie = Member(coordinator_port(cluster, group), group)
    group_members.formed([zombie])
    assert zombie.commit(topic, 3) == 0
    monkeypatch.setattr(group_members, "SESSION_MS", 30_000)
    successor = Member(coordinator_port(cluster, group), group)
    group_members.formed([successor])  # when the zombie's session is over
    assert successor.commit(topic, 5) == 0
    refused = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    assert zombie.commit(topic, 4) in refused
    assert zombie.heartbeat() in refused
    victim = move_coordinator(cluster, group)
    for member in (zombie, successor):
        member.peer.socket.close()
        member.peer = Peer(coordinator_port(cluster, group))
    settled(successor, 0)
    assert zombie.commit(topic, 4) in refused
    assert offset_of(successor.peer, group, topic) == 5
    for member in (zombie, successor):
        member.peer.socket.close()
    cluster.start_broker(victim)
    cluster.await_in_sync(topic)


def test_zombie_leader(cluster: ObservedCluster, topic: str) -> None:
    """A leader that stood still while another was elected acknowledges nothing when it goes on."""
    leader = cluster.leader_of(topic)
    write(cluster, topic, b"before")
    with cluster.peer(leader) as late:
        late.ask(ApiKey.PRODUCE, PRODUCE_VERSION, produce_request(topic, batch(b"at its best")))
        cluster.pause(leader)
        late.send(
            ApiKey.PRODUCE, PRODUCE_VERSION, produce_request(topic, batch(b"too late"), timeout_ms=5_000)
        )
        eventually(lambda: cluster.partitions(topic)[0].leader not in (-1, leader), "another leads")
        assert write(cluster, topic, b"after") == 2
        cluster.resume(leader)
        try:
            _, answer = late.receive(ApiKey.PRODUCE, PRODUCE_VERSION)
            error = answer.responses[0].partition_responses[0].error_code
        except OSError:
            error = -1  # it hung up, which acknowledges nothing either
    assert error != 0
    cluster.await_in_sync(topic)
    assert values(cluster, topic) == ["before", "at its best", "after"]
    assert_replicas_match(cluster, topic)


def shrunk_to_its_leader(cluster: ObservedCluster, **settings: Any) -> tuple[str, int, int]:
    """A topic of two replicas, away from the controller, one of which fell behind: its name, the leader, the
    other.
    """
    name = f"topic{next(_NUMBERS)}"
    leader, follower = [each for each in cluster.ids if each != cluster.controller()]
    cluster.create_topic(name, replicas=[leader, follower], min_insync_replicas=1, **settings)
    write(cluster, name, b"on both")
    cluster.cut(leader, follower)
    assert write(cluster, name, b"on the leader", acks=1) == 1
    eventually(lambda: cluster.partitions(name)[0].isr == (leader,), "the follower is out of the ISR")
    return name, leader, follower


def test_isr_shrinks_to_empty(cluster: ObservedCluster) -> None:
    """Without a replica in sync a partition has no leader, and says so, until one of those is back; nothing
    is lost.
    """
    name, leader, follower = shrunk_to_its_leader(cluster)
    cluster.kill(leader)
    cluster.heal()
    eventually(lambda: cluster.partitions(name)[0].leader == -1, "there is no leader")
    answers = [answer.topics[0].partitions[0] for answer in cluster.metadata(name)]
    assert {each.error_code for each in answers} == {ErrorCode.LEADER_NOT_AVAILABLE}
    assert {tuple(each.isr_nodes) for each in answers} == {(leader,)}
    with cluster.peer(follower) as peer:
        refused = produce(peer, name, batch(b"in vain")).error_code
        assert refused == ErrorCode.NOT_LEADER_OR_FOLLOWER
    status = CliRunner().invoke(ottla, ["cluster", "status", "--data", str(cluster.data)]).output
    assert "Without a leader, so neither read nor written: 1 partition" in status
    cluster.start_broker(leader)
    cluster.await_in_sync(name)
    assert values(cluster, name) == ["on both", "on the leader"]


def test_isr_shrinks_to_empty_where_availability_was_chosen(cluster: ObservedCluster) -> None:
    """With unclean elections the replica that is left leads at once; what only the dead leader had is gone
    for good.
    """
    name, leader, follower = shrunk_to_its_leader(cluster, unclean_leader_election_enable="true")
    cluster.kill(leader)
    eventually(lambda: cluster.partitions(name)[0].leader == follower, "the other leads")
    # Not before: what the dead leader had sent over the cut would arrive, and be followed.
    cluster.heal()
    assert write(cluster, name, b"on the other") == 1
    cluster.start_broker(leader)
    cluster.await_in_sync(name)
    assert values(cluster, name) == ["on both", "on the other"]
    assert_replicas_match(cluster, name)


def assert_replicas_match(cluster: ObservedCluster, topic: str) -> None:
    """All replicas have the same bytes; those of the last write may still be on their way."""
    directories = {node_id: cluster.directory_of(node_id) for node_id in cluster.ids}
    wait_until(lambda: not differing_replicas(directories, topic), "all replicas are equal")
