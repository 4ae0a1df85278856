"""The promises: what a user may rely on for each fault and setting, with acks=all and three replicas.

A cell says the promise in the words of the documentation, the tales that show it in the simulation, and the
test that shows it on real processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.simulation.promises import tales
from tests.simulation.promises.stage import Stage


@dataclass(frozen=True, slots=True)
class Tale:
    """What happens, and how it must end. With `voters_apart` no disk of a replica holds metadata."""

    play: Callable[[Stage], None]
    end: Callable[[Stage], None]
    voters_apart: bool = True


@dataclass(frozen=True, slots=True)
class Setting:
    """A column: the settings of a topic, and how the documentation calls them."""

    title: str
    topic: dict[str, str]


@dataclass(frozen=True, slots=True)
class Promise:
    """A cell. `shown_by` names tests on real processes, as file::test."""

    fault: str
    setting: Setting
    words: str
    tales: tuple[Tale, ...]
    shown_by: tuple[str, ...]


KILLED: Final = "processes killed, any number"
POWER: Final = "one machine loses power, and any processes are killed"
DISK: Final = "one disk lost, and any processes killed"
DAMAGE: Final = "records of one disk are damaged, found when its broker starts, and any processes killed"
ALL_POWER: Final = "all machines lose power at once"
TWO_DISKS: Final = "two disks lost before one of them is back in sync"
FAULTS: Final = (KILLED, POWER, DISK, DAMAGE, ALL_POWER, TWO_DISKS)

TWO: Final = Setting("`min.insync.replicas=2`", {"min.insync.replicas": "2"})
FLUSHED: Final = Setting(
    "the same, with `ottla.flush.on.acks.all`",
    {"min.insync.replicas": "2", "ottla.flush.on.acks.all": "true"},
)
BALANCED: Final = Setting(
    "the same, with `unclean.recovery.strategy=Balanced` (`ottla cluster up`)",
    {"min.insync.replicas": "2", "unclean.recovery.strategy": "Balanced"},
)
ONE: Final = Setting("`min.insync.replicas=1`", {"min.insync.replicas": "1"})
SETTINGS: Final = (TWO, FLUSHED, BALANCED, ONE)

_LOST_DISKS: Final = "tests/integration/test_lost_disks.py::"
_KEPT: Final = Stage.nothing_is_lost
_WAITS: Final = Stage.waits_for_an_operator
_DECIDED: Final = Stage.nothing_is_lost_once_decided
_BEST: Final = Stage.the_most_complete_leads

_everybody_killed: Final = Tale(tales.everybody_is_killed, _KEPT, voters_apart=False)
_disk_lost: Final = Tale(tales.a_disk_is_lost_and_all_are_killed, _KEPT)
_one_dark: Final = Tale(tales.one_loses_power_and_the_others_are_killed, _KEPT, voters_apart=False)
_two_lost: Final = tales.two_disks_are_lost_that_alone_were_complete

PROMISES: Final = (
    Promise(
        KILLED,
        TWO,
        "nothing is lost; writes go on when two are back",
        (_everybody_killed,),
        (f"{_LOST_DISKS}test_all_are_killed_and_a_disk_is_lost",),
    ),
    Promise(
        KILLED,
        FLUSHED,
        "the same",
        (_everybody_killed,),
        (f"{_LOST_DISKS}test_all_machines_lose_power_and_an_operator_decides",),
    ),
    Promise(
        KILLED,
        BALANCED,
        "as in the first column",
        (_everybody_killed,),
        (f"{_LOST_DISKS}test_all_machines_lose_power_and_an_operator_decides",),
    ),
    Promise(
        KILLED,
        ONE,
        "nothing is lost; writes go on when the last in sync is back",
        (Tale(tales.the_last_in_sync_is_killed, _KEPT),),
        (f"{_LOST_DISKS}test_the_only_replica_in_sync_is_lost_and_an_operator_decides",),
    ),
    Promise(
        POWER,
        TWO,
        "nothing is lost, the others lead",
        (_one_dark, Tale(tales.the_last_leader_loses_power, _KEPT)),
        (f"{_LOST_DISKS}test_all_are_killed_and_a_machine_loses_power",),
    ),
    Promise(
        POWER,
        FLUSHED,
        "nothing is lost, it may lead again",
        (Tale(tales.the_last_leader_loses_power_and_flushes, _KEPT),),
        (f"{_LOST_DISKS}test_all_machines_lose_power_and_an_operator_decides",),
    ),
    Promise(
        POWER,
        BALANCED,
        "as in the first column",
        (_one_dark, Tale(tales.the_last_leader_loses_power, _KEPT)),
        (f"{_LOST_DISKS}test_all_machines_lose_power_and_an_operator_decides",),
    ),
    Promise(
        POWER,
        ONE,
        "nothing is lost where another was in sync; it may wait for you",
        (
            Tale(tales.one_loses_power, _KEPT),
            Tale(tales.one_loses_power_and_the_others_are_killed, _DECIDED, voters_apart=False),
            Tale(tales.the_last_in_sync_loses_power, _WAITS),
        ),
        (f"{_LOST_DISKS}test_the_only_replica_in_sync_is_lost_and_an_operator_decides",),
    ),
    Promise(
        DISK,
        TWO,
        "nothing is lost, the others lead",
        (_disk_lost,),
        (
            f"{_LOST_DISKS}test_all_are_killed_and_a_disk_is_lost",
            f"{_LOST_DISKS}test_the_last_in_sync_loses_its_disk",
        ),
    ),
    Promise(
        DISK,
        FLUSHED,
        "the same",
        (_disk_lost,),
        (f"{_LOST_DISKS}test_the_last_in_sync_loses_its_disk",),
    ),
    Promise(
        DISK,
        BALANCED,
        "as in the first column",
        (_disk_lost,),
        (f"{_LOST_DISKS}test_all_machines_lose_power_and_an_operator_decides",),
    ),
    Promise(
        DISK,
        ONE,
        "nothing is lost where another was in sync; it may wait for you",
        (
            Tale(tales.one_loses_its_disk, _KEPT),
            Tale(tales.one_loses_its_disk_and_the_others_are_killed, _DECIDED),
            Tale(tales.the_last_in_sync_loses_its_disk, _WAITS),
        ),
        (f"{_LOST_DISKS}test_the_only_replica_in_sync_is_lost_and_an_operator_decides",),
    ),
    *(
        Promise(
            DAMAGE,
            setting,
            words,
            (Tale(tale, end),),
            (f"{_LOST_DISKS}test_the_last_leader_finds_damaged_records",),
        )
        for setting, words, tale, end in (
            (TWO, "nothing is lost, the others lead", tales.the_last_leader_is_damaged, _KEPT),
            (FLUSHED, "the same", tales.the_last_leader_is_damaged, _KEPT),
            (BALANCED, "as in the first column", tales.the_last_leader_is_damaged, _KEPT),
            (ONE, "waits for you if it was the last in sync", tales.the_last_in_sync_is_damaged, _WAITS),
        )
    ),
    Promise(
        ALL_POWER,
        TWO,
        "waits for you",
        (Tale(tales.everybody_loses_power, _WAITS, voters_apart=False),),
        (f"{_LOST_DISKS}test_all_machines_lose_power_and_an_operator_decides",),
    ),
    Promise(
        ALL_POWER,
        FLUSHED,
        "nothing is lost",
        (
            Tale(tales.everybody_loses_power, _KEPT, voters_apart=False),
            Tale(tales.everybody_loses_power_after_flushing_was_turned_on, _KEPT, voters_apart=False),
        ),
        (f"{_LOST_DISKS}test_all_machines_lose_power_and_an_operator_decides",),
    ),
    Promise(
        ALL_POWER,
        BALANCED,
        "when all are back the most complete replica leads; what no machine flushed is lost",
        (Tale(tales.everybody_loses_power, _BEST, voters_apart=False),),
        (f"{_LOST_DISKS}test_all_machines_lose_power_and_an_operator_decides",),
    ),
    Promise(
        ALL_POWER,
        ONE,
        "waits for you",
        (Tale(tales.everybody_loses_power, _WAITS, voters_apart=False),),
        (f"{_LOST_DISKS}test_all_machines_lose_power_and_an_operator_decides",),
    ),
    *(
        Promise(
            TWO_DISKS,
            setting,
            words,
            (Tale(tales.two_disks_are_lost_and_a_third_is_complete, _KEPT), Tale(_two_lost, end)),
            (f"{_LOST_DISKS}test_two_disks_are_lost_and_an_operator_decides",),
        )
        for setting, words, end in (
            (TWO, "waits for you if no complete replica is left", _WAITS),
            (FLUSHED, "the same", _WAITS),
            (
                BALANCED,
                "when all are back the most complete replica leads; what only the others had is lost",
                _BEST,
            ),
            (ONE, "waits for you if no complete replica is left", _WAITS),
        )
    ),
)


def markdown() -> str:
    """The table as the documentation shows it."""
    words = {(each.fault, each.setting.title): each.words for each in PROMISES}
    lines = [
        f"| fault | {' | '.join(setting.title for setting in SETTINGS)} |",
        f"|---{'|---' * len(SETTINGS)}|",
        *(
            f"| {fault} | {' | '.join(words[fault, setting.title] for setting in SETTINGS)} |"
            for fault in FAULTS
        ),
    ]
    return "\n".join(lines) + "\n"
