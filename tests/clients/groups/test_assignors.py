"""Every assignor of every client shares partitions out fairly, alone and with members of other clients
(GRP-2).
"""

from __future__ import annotations

from tests.clients.groups.catalogue import GroupFamily, family_assignors
from tests.clients.groups.conftest import GroupTrial
from tests.clients.groups.host import await_shared_out, until
from tests.clients.groups.model import Assignor
from tests.clients.groups.test_scenarios import have_read


@family_assignors()
def test_members_share_the_partitions_and_one_that_leaves_gives_them_back(
    trial: GroupTrial, family: GroupFamily, assignor: Assignor
) -> None:
    trial.make_topic(6)
    members = [trial.join(family, assignors=(assignor,)) for _ in range(3)]
    await_shared_out(members, 6)
    values = trial.write(30, 6)
    until(lambda: have_read(members, values), "all is read", members)
    members[0].leave()
    await_shared_out(members[1:], 6)
