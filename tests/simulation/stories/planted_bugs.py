"""Bugs planted in shipped code, to see that stories find them.

Each is a mistake that somebody could make, or has made; a patch puts it in for one story and takes it out again. Nothing
of this is in `src`. `FOUND_BY` names the seed that found each when it was last looked for
(`python -m tests.simulation --bugs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from tests.simulation.stories.machine_bugs import MACHINE_BUGS, Patches
from tests.simulation.stories.shell_bugs import SHELL_BUGS

BUGS: Mapping[str, Callable[[], Patches]] = {bug.__name__: bug for bug in (*MACHINE_BUGS, *SHELL_BUGS)}
FOUND_BY: Mapping[str, int] = {
    "watermark_without_isr": 1,
    "removed_members_do_not_count": 2,
    "reads_beyond_the_watermark": 2,
    "expansion_before_it_has_caught_up": 6,
    "watermark_of_a_follower_is_the_leaders": 2,
    "isr_change_without_compare_and_set": 5,
    "election_outside_of_the_isr": 3,
    "new_leader_in_the_old_epoch": 1,
    "no_epoch_check_on_a_followers_fetch": 5,
    "truncation_by_watermark": 2,
    "follower_keeps_no_producer_state": 1,
    "waiters_are_not_told_of_a_new_leadership": 2,
}


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Shipped code with one bug in it, or none."""
    with ExitStack() as stack:
        for target, attribute, replacement in BUGS[name]() if name else ():
            stack.enter_context(patch.object(target, attribute, replacement))
        yield
