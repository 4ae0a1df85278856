"""When a log directory is offline, and when it is probed."""

from ottla.log.plan.directory_state import (
    CALM_MS,
    FIRST_PAUSE_MS,
    LONGEST_PAUSE_MS,
    NEVER_MS,
    DirectoryState,
)


def full(state: DirectoryState, now_ms: int) -> bool:
    return state.write_failed(is_full=True, now_ms=now_ms)


def test_a_full_directory_is_offline_until_a_probe_finds_room() -> None:
    state = DirectoryState()
    assert full(state, 0)
    assert state.is_offline
    assert not full(state, 500), "it is known"
    assert state.probe_at_ms == FIRST_PAUSE_MS
    state.probed(has_room=False, now_ms=1_000)
    assert (state.is_offline, state.probe_at_ms) == (True, 1_000 + FIRST_PAUSE_MS)
    state.probed(has_room=True, now_ms=2_000)
    assert (state.is_offline, state.probe_at_ms) == (True, 2_000 + FIRST_PAUSE_MS)
    state.probed(has_room=False, now_ms=3_000)
    state.probed(has_room=True, now_ms=4_000)
    assert state.is_offline, "room must be found twice in a row"
    state.probed(has_room=True, now_ms=5_000)
    assert (state.is_offline, state.probe_at_ms) == (False, NEVER_MS)


def test_a_directory_that_is_full_again_soon_is_probed_less_and_less_often() -> None:
    state, now_ms, pauses = DirectoryState(), 0, []
    for _ in range(8):
        full(state, now_ms)
        pauses.append(state.probe_at_ms - now_ms)
        for _ in range(2):
            now_ms = state.probe_at_ms
            state.probed(has_room=True, now_ms=now_ms)
    assert pauses == [min(FIRST_PAUSE_MS << n, LONGEST_PAUSE_MS) for n in range(8)]
    now_ms += CALM_MS
    full(state, now_ms)
    assert state.probe_at_ms == now_ms + FIRST_PAUSE_MS


def test_a_directory_whose_disk_failed_stays_offline() -> None:
    state = DirectoryState()
    full(state, 0)
    assert not state.write_failed(is_full=False, now_ms=1)
    state.probed(has_room=True, now_ms=2)
    assert (state.is_offline, state.is_lost, state.probe_at_ms) == (True, True, NEVER_MS)
