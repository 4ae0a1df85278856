"""When fetches of a session count as news of a partition."""

from ottla.replication.events import FollowerFetched
from ottla.replication.follower_progress import REFRESH_MS, FollowerProgress

LEADER_EPOCH = 4


def proven(now_ms: int = 1000) -> FollowerProgress:
    """Follower 2, in its life 7, has proven that it holds all before offset 10."""
    progress = FollowerProgress(2, 7, 10, LEADER_EPOCH)
    assert progress.prove(now_ms) == FollowerFetched(2, 7, 10)
    return progress


def test_a_fetch_that_leaves_the_partition_out_repeats_what_was_proven() -> None:
    progress = proven()
    assert progress.repeat(1000 + REFRESH_MS, LEADER_EPOCH) == FollowerFetched(2, 7, 10)


def test_repetitions_are_told_at_most_once_in_a_while() -> None:
    progress = proven()
    assert progress.repeat(1000 + REFRESH_MS - 1, LEADER_EPOCH) is None
    assert progress.repeat(1000 + REFRESH_MS, LEADER_EPOCH) is not None
    assert progress.repeat(1000 + 2 * REFRESH_MS - 1, LEADER_EPOCH) is None


def test_an_offset_that_is_not_judged_yet_proves_nothing() -> None:
    progress = proven()
    progress.name(20, LEADER_EPOCH)
    assert progress.repeat(9000, LEADER_EPOCH) is None
    assert progress.prove(9000) == FollowerFetched(2, 7, 20)


def test_what_was_proven_under_another_leader_epoch_is_not_repeated() -> None:
    assert proven().repeat(9000, LEADER_EPOCH + 1) is None
