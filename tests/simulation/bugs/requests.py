"""Bugs in `ottla.server.net`, `gate` and `apis`: order of answers, gathered and remembered requests, sessions."""

from tests.simulation.bugs.bug import Bug, Edit

from ottla.replication.fetch_session import CachedPartition, FetchSession
from ottla.server.answers.send_queue import SendQueue
from ottla.server.apis.produce import ProduceGatherer
from ottla.server.apis.produce_shape import ProduceShape
from ottla.server.net.connection import Connection

BUGS = (
    # ---- the order of answers
    Bug(
        "answer_overtakes_those_that_wait",
        "An answer that is known at once leaves before the answers to earlier requests, which still wait.",
        Edit(Connection._emit, "if self._pending:", "if False:"),
        faults=("slow-link", "pause"),
    ),
    Bug(
        "answers_leave_as_they_become_known",
        "Of several answers that wait, the one that is known first leaves first.",
        Edit(
            Connection._settled,
            "pending.parts = outcome\n",
            "pending.parts = outcome\n        self._pending.remove(pending)\n        self._pending.appendleft(pending)\n",
        ),
        faults=("slow-link", "cut-pair"),
    ),
    Bug(
        "records_leave_before_their_header",
        "Records that the kernel sends from a file overtake the bytes that were to come before them.",
        Edit(
            SendQueue._enqueue,
            "            self._enqueue_joined(small)\n            self._parts.append(",
            "            self._parts.append(",
        ),
    ),
    # ---- produce
    Bug(
        "duplicate_acknowledged_at_once",
        "A batch that is sent again is known already: it is answered without waiting for its replication.",
        Edit(
            ProduceGatherer._acknowledged,
            "missing = self._acknowledgements.missing(outcomes, acks)",
            "fresh = [p for p, found in outcomes.items() if not all(getattr(each, 'is_duplicate', False) for each in found)]\n"
            "    missing = self._acknowledgements.missing(fresh, acks)",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "failure_after_the_append_is_answered_as_success",
        "Records whose replication or flush failed are answered with their offset.",
        Edit(ProduceGatherer._answers_after, "results[:] = [", "results = ["),
        faults=("cut-leader",),
    ),
    Bug(
        "repeated_request_is_acks_one",
        "A request that repeats an earlier one with acks=all is answered as acks=1.",
        Edit(ProduceGatherer.repeats, "if shape.acks == ACKS_ALL:\n        self._acks = ACKS_ALL", "pass"),
        faults=("cut-leader", "chase", "slow-link"),
    ),
    Bug(
        "repeated_request_is_not_checked",
        "A request that repeats an earlier one is appended, whether this broker leads the partition or not.",
        Edit(ProduceShape.match, "\n        or partition.append_error(self.acks)", ""),
        faults=("elect", "chase", "cut"),
    ),
    Bug(
        "every_request_of_a_read_gets_the_first_answer",
        "Of several requests in one read for one partition, each is answered with the offset of the first.",
        Edit(
            ProduceGatherer.repeats,
            "self._entries.append((correlation_id, shape, len(staged)))",
            "self._entries.append((correlation_id, shape, 0))",
        ),
        Edit(ProduceGatherer._place, "len(staged) - 1", "0"),
    ),
    Bug(
        "strictest_acks_of_a_read_is_forgotten",
        "The acks of a decoded request do not count where a read holds several requests.",
        Edit(ProduceGatherer.add, "if request.acks == ACKS_ALL:\n        self._acks = ACKS_ALL", "pass"),
        faults=("cut-leader",),
    ),
    # ---- fetch sessions
    Bug(
        "consumers_session_keeps_its_old_offset",
        "A fetch that names a partition of its session again is answered from the offset before.",
        Edit(FetchSession.update, "cached.wanted = wanted", "pass"),
    ),
    Bug(
        "session_filters_records_out",
        "A partition is left out of an incremental answer although it has records, if its watermark was told.",
        Edit(
            CachedPartition.is_news,
            "result.size_bytes > 0\n        or result.high_watermark",
            "result.high_watermark",
        ),
    ),
)
