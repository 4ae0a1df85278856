"""Bounded descriptors (STO-12)."""

import pytest

from ottla.log.files.open_files import Pool, Slot


class Thing:
    """Something that is opened."""


def test_a_slot_opens_once_and_again_after_it_was_evicted() -> None:
    pool: Pool[Thing] = Pool(2)
    slots = [Slot(pool, Thing) for _ in range(3)]
    first = slots[0].get()
    slots[1].get()
    assert slots[1].get() is slots[1].value
    slots[2].get()
    assert len(pool) == 2
    assert sum(slot.value is not None for slot in slots) == 2
    assert slots[0].get() is not first
    assert len(pool) == 2


def test_what_is_used_between_evictions_stays() -> None:
    pool: Pool[Thing] = Pool(4)
    hot = Slot(pool, Thing)
    kept = hot.get()
    for _ in range(50):
        Slot(pool, Thing).get()
        assert hot.get() is kept
        assert len(pool) <= 4


def test_closing_makes_room_and_may_be_repeated() -> None:
    pool: Pool[Thing] = Pool(1)
    slot = Slot(pool, Thing)
    slot.get()
    slot.close()
    slot.close()
    assert len(pool) == 0


def test_an_evicted_value_lives_as_long_as_somebody_holds_it() -> None:
    pool: Pool[Thing] = Pool(1)
    slot = Slot(pool, Thing)
    held = slot.get()
    Slot(pool, Thing).get()
    assert slot.value is None
    assert held is not None


def test_a_pool_for_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Pool[Thing](0)
