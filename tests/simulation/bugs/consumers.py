"""Bugs in `ottla.client.consumer`, `fetching` and `membership`: positions, sessions, commits, rebalances."""

from tests.simulation.bugs.bug import Bug, Edit

from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.consumer.commits import Commits
from ottla.client.consumer.group_membership import GroupMembership
from ottla.client.consumer.plan.partition_turns import Turns
from ottla.client.consumer.positions import Positions
from ottla.client.consumer.subscription import Subscription
from ottla.client.fetching.fetcher import Fetcher
from ottla.client.fetching.plan import fetch_plan
from ottla.client.fetching.plan.fetch_plan import FetchPlan
from ottla.client.fetching.plan.fetch_session import FetchSession
from ottla.client.fetching.plan.partition_reader import PartitionReader
from ottla.client.membership.machine.group_member import GroupMember
from ottla.client.membership.plan import plain_assignors

BUGS = (
    # ---- any broker
    Bug(
        "broker_that_did_not_help_is_asked_again",
        "Where any broker may answer, a client asks the first one it reached, even if that one is cut off.",
        Edit(KnownCluster._preference, "self._unhelpful.get(address, 0)", "0"),
        faults=("cut-pair",),
    ),
    # ---- positions
    Bug(
        "answer_to_an_older_fetch_is_taken",
        "The answer to a fetch from an older position is handed out.",
        Edit(
            FetchPlan.answers,
            "if asked is not None and asked.reader.fetch_offset == asked.offset:",
            "if asked is not None:",
        ),
        faults=("hold", "elect", "chase"),
    ),
    Bug(
        "position_moves_with_the_fetch",
        "The position of a batch that was fetched, and not handed out, is skipped after the next fetch.",
        Edit(
            PartitionReader.fetched,
            "self.buffered_bytes += batches.size_bytes",
            "self.buffered_bytes += batches.size_bytes\n        if len(self._batches) > 1:\n            self._batches.popleft()",
        ),
    ),
    Bug(
        "first_record_after_a_position_is_skipped",
        "A position in the middle of a batch goes on one record too late.",
        Edit(
            PartitionReader._open_decoded,
            "bisect_left(columns.offsets, position)",
            "bisect_left(columns.offsets, position) + 1",
        ),
        faults=("crash-client",),
    ),
    Bug(
        "whole_batches_are_handed_out_again",
        "A position in the middle of a batch begins at the start of the batch.",
        Edit(
            PartitionReader._open_decoded, "if columns.values and columns.offsets[0] < position:", "if False:"
        ),
        faults=("crash-client",),
    ),
    Bug(
        "error_that_passes_resets_the_position",
        "A broker that does not lead any more makes the consumer begin where its reset policy says.",
        Edit(
            fetch_plan.take_in,
            "if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:",
            "if data.error_code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER):",
        ),
        faults=("elect", "chase"),
    ),
    Bug(
        "former_leader_is_believed_about_the_range",
        "A former leader, which old metadata names, makes the consumer begin where its reset policy says.",
        Edit(fetch_plan.take_in, "if reader.doubts(asked.leader_epoch):", "if False:"),
        faults=("cut-leader", "crash-client"),
    ),
    Bug(
        "committed_offset_is_not_asked_for",
        "A member begins where its reset policy says, whatever its group has committed.",
        Edit(Positions._places, "if self._coordinator is not None:", "if False:"),
        faults=("crash-client",),
    ),
    # ---- fetches
    Bug(
        "session_is_not_told_of_a_new_offset",
        "A fetch names new partitions only, and not those whose offset moved.",
        Edit(FetchSession.request, "if known.get(key) != each}", "if key not in known}"),
    ),
    Bug(
        "blocked_reader_is_never_unblocked",
        "A partition whose leader gave an error that passes is not fetched any more.",
        Edit(Fetcher._unblock, "reader.unblock()", "pass"),
    ),
    Bug(
        "busy_broker_is_busy_for_ever",
        "After the last fetch from a broker, no other is begun.",
        Edit(Fetcher._fetch_from, "self._busy.discard(node_id)", "pass"),
    ),
    Bug(
        "reader_stands_in_line_once",
        "A partition that had its turn does not get another one.",
        Edit(Turns._front, "self._waiting.discard(self._line.popleft())", "self._line.popleft()"),
    ),
    Bug(
        "records_beyond_the_limit_are_dropped",
        "Of a batch that is larger than the poll, the rest is not handed out.",
        Edit(
            PartitionReader.take,
            "taken = opened.take(limit)",
            "taken = opened.take(limit)\n    self._settle()",
        ),
    ),
    # ---- commits
    Bug(
        "refused_commit_is_success",
        "Errors in the answer to a commit are not looked at.",
        Edit(Commits._try, "succeeded(outcomes)", "pass"),
        faults=("pause-client",),
    ),
    # ---- rebalances
    Bug(
        "revoked_partitions_are_read_on",
        "A member goes on to read partitions that it gave up.",
        Edit(Subscription.give_up, "self._fetcher.drop(partitions)", "pass"),
        faults=("pause-client",),
    ),
    Bug(
        "assignment_revokes_nothing",
        "A new assignment adds partitions, and takes none away.",
        Edit(
            Subscription.change_to,
            "AssignmentChange(held - given, given - held,",
            "AssignmentChange(frozenset(), given - held,",
        ),
        faults=("pause-client",),
    ),
    Bug(
        "member_joins_before_it_has_let_go",
        "A member asks for its next partitions while it still reads the old ones.",
        Edit(
            GroupMembership.attend,
            "await self._subscription.let_go(is_lost=pending.is_lost)",
            "pass",
        ),
        faults=("crash-client", "pause-client"),
    ),
    Bug(
        "lost_membership_keeps_its_partitions",
        "A member that was thrown out of its group reads on, and commits in its next generation.",
        Edit(
            GroupMember._refused,
            'return self._prepare(f"refused with {code.name}", is_lost=True)',
            "return []",
        ),
        faults=("pause-client",),
    ),
    Bug(
        "member_says_goodbye_to_the_former_coordinator",
        "A member that closes while its coordinator moves stays in the group until its session ends.",
        Edit(
            GroupMember._left,
            "if error.code in _COORDINATOR_LOST:\n        self._lose_coordinator(now_ms)",
            "if error.code in _COORDINATOR_LOST:\n        return self._end()",
        ),
        faults=("elect", "crash-client"),
    ),
    Bug(
        "rebalance_is_not_heard_of",
        "A heartbeat that says that the group rebalances is taken for a good one.",
        Edit(
            GroupMember._refused,
            'return self._rejoin("the group rebalances") if self.phase is Phase.STABLE else []',
            "return []",
        ),
        faults=("crash-client",),
    ),
    Bug(
        "last_partition_goes_to_nobody",
        "The range assignor leaves the remainder out.",
        Edit(plain_assignors.assign_range, "last = first + share + (index < extra)", "last = first + share"),
        Edit(
            plain_assignors.assign_round_robin,
            "turn += 1\n    return assignment",
            "turn += 1\n    assignment[order[0].member_id] = assignment[order[0].member_id][1:]\n    return assignment",
        ),
        faults=("crash-client",),
    ),
    Bug(
        "new_partitions_are_not_divided",
        "The leader of a group does not ask for a rebalance when a topic grows.",
        Edit(Subscription.has_other_partitions, "return divided is not None and", "return False and"),
        faults=("add-partitions",),
    ),
)
