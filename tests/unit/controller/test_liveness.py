"""Dead processes are noticed at once, silent ones after a session, and nobody is blamed for our own sleep
(CTL-1).
"""

from tests.unit.controller.cluster import Cluster

from ottla.controller.image import ClusterImage
from ottla.controller.liveness import BrokerLiveness

SESSION_MS = 4000
GRACE_MS = 200


class Watch:
    """A liveness that is asked as often as it wants to be."""

    def __init__(self, image: ClusterImage) -> None:
        self.liveness = BrokerLiveness(SESSION_MS, GRACE_MS)
        self.image = image
        self.now_ms = 0
        self.liveness.activate(image, 0)

    def expired_by(self, until_ms: int) -> list[tuple[int, int]]:
        """The brokers that expire up to a time, and when."""
        found = []
        while (deadline := self.liveness.next_deadline_ms(self.image)) is not None and deadline <= until_ms:
            assert deadline >= self.now_ms
            self.now_ms = deadline
            found += [(node_id, deadline) for node_id in self.liveness.expired(self.image, deadline)]
        self.now_ms = until_ms
        return found


def watch(brokers: int = 2) -> Watch:
    return Watch(Cluster(brokers=brokers).image)


def test_a_new_controller_gives_everybody_a_session() -> None:
    watched = watch()
    assert watched.liveness.unheard(watched.image) == [1, 2]
    assert watched.expired_by(SESSION_MS - 1) == []
    assert watched.expired_by(SESSION_MS) == [(1, SESSION_MS), (2, SESSION_MS)]


def test_a_heartbeat_renews_the_session() -> None:
    watched = watch()
    watched.expired_by(3000)
    watched.liveness.heard(1, 3000)
    assert watched.liveness.unheard(watched.image) == [2]
    assert watched.expired_by(6999) == [(2, 4000), (2, 5000), (2, 6000)]
    assert watched.expired_by(7000)[0] == (1, 7000)


def test_a_closed_connection_leaves_a_short_grace() -> None:
    watched = watch()
    watched.liveness.heard(1, 100, "first")
    watched.liveness.disconnected(1, 150, "first")
    assert watched.expired_by(351) == [(1, 350)]


def test_a_broker_that_comes_back_within_the_grace_stays() -> None:
    watched = watch()
    watched.liveness.heard(1, 100, "first")
    watched.liveness.disconnected(1, 150, "first")
    watched.liveness.heard(1, 300, "second")
    assert watched.expired_by(SESSION_MS - 1) == []


def test_the_end_of_a_connection_that_was_replaced_does_not_matter() -> None:
    watched = watch()
    watched.liveness.heard(1, 100, "first")
    watched.liveness.heard(1, 110, "second")
    watched.liveness.disconnected(1, 120, "first")
    assert watched.expired_by(SESSION_MS - 1) == []


def test_a_broker_that_refuses_a_connection_counts_as_disconnected() -> None:
    watched = watch()
    watched.liveness.disconnected(2, 10)
    assert watched.liveness.unheard(watched.image) == [1]
    assert watched.expired_by(1000) == [(2, 210)]


def test_a_late_grace_does_not_prolong_a_session() -> None:
    watched = watch()
    watched.expired_by(3900)
    watched.liveness.disconnected(1, 3900)
    assert watched.expired_by(4050) == [(1, 4000), (2, 4000)]


def test_who_is_fenced_does_not_expire_again() -> None:
    cluster = Cluster(brokers=2)
    watched = Watch(cluster.image)
    watched.liveness.disconnected(1, 0)
    assert watched.expired_by(200) == [(1, 200)]
    cluster.fence(1)
    watched.image = cluster.image
    assert watched.expired_by(3999) == []
    watched.liveness.heard(1, 3999)
    cluster.heartbeat(1)
    watched.image = cluster.image
    assert watched.expired_by(4500) == [(2, 4000)]


def test_a_broker_of_which_nothing_is_known_begins_its_session() -> None:
    watched = watch(1)
    watched.liveness.heard(1, 500)
    watched.image = Cluster(brokers=2).image
    assert watched.expired_by(4499) == []
    assert [node_id for node_id, _ in watched.expired_by(4700)] == [1, 2]


def test_nobody_is_blamed_for_our_own_sleep() -> None:
    watched = watch()
    watched.liveness.heard(1, 1000)
    watched.liveness.heard(2, 1000)
    assert watched.liveness.expired(watched.image, 60_000) == []
    watched.now_ms = 60_000
    assert watched.expired_by(63_999) == []
    assert [node_id for node_id, _ in watched.expired_by(64_000)] == [1, 2]


def test_two_brokers_cannot_have_one_id() -> None:
    watched = watch()
    assert not watched.liveness.is_present(1, 0)
    watched.liveness.heard(1, 100, "its own")
    assert watched.liveness.is_present(1, 200)
    assert not watched.liveness.is_present(1, 100 + SESSION_MS)
    watched.liveness.disconnected(1, 300, "its own")
    assert not watched.liveness.is_present(1, 301)


def test_a_controller_that_is_not_active_watches_nobody() -> None:
    watched = watch()
    watched.liveness.deactivate()
    watched.liveness.heard(1, 5)
    watched.liveness.disconnected(1, 6)
    assert watched.liveness.expired(watched.image, 10**9) == []
    assert watched.liveness.unheard(watched.image) == []
    assert watched.liveness.next_deadline_ms(watched.image) is None
    assert not watched.liveness.is_present(1, 6)


def test_the_shell_is_asked_to_come_four_times_a_session() -> None:
    watched = watch()
    watched.liveness.heard(1, 100)
    watched.liveness.heard(2, 100)
    assert watched.liveness.next_deadline_ms(watched.image) == 100 + SESSION_MS // 4


def test_a_former_controller_was_silent_before_it_was_replaced() -> None:
    liveness = BrokerLiveness(SESSION_MS, 200)
    image = Cluster(brokers=3).image
    liveness.activate(image, 10_000, {1: 8_500, 2: 100})
    first: dict[int, int] = {}
    for at_ms in range(10_000, 14_100, 100):
        for node_id in liveness.expired(image, at_ms):
            first.setdefault(node_id, at_ms)
    # The second has a quarter of a session to show up.
    assert first == {1: 8_500 + SESSION_MS, 2: 10_000 + SESSION_MS // 4, 3: 10_000 + SESSION_MS}
