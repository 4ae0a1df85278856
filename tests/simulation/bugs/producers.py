"""Bugs in `ottla.client.producer`: retries, sequence numbers, order, outcomes."""

from tests.simulation.bugs.bug import Bug, Edit

from ottla.client.producer.machine import idempotence
from ottla.client.producer.machine.accumulator import Accumulator
from ottla.client.producer.machine.batch_answers import Answers
from ottla.client.producer.machine.idempotence import PartitionSequence
from ottla.client.producer.machine.partition_queue import PartitionQueue
from ottla.client.producer.sender import Sender

BUGS = (
    Bug(
        "retry_changes_the_sequence",
        "A batch that is sent again gets the next sequence number.",
        Edit(PartitionSequence.assign, "if batch.first_sequence == NO_SEQUENCE:", "if True:"),
        Edit(Accumulator._send, "if batch.encoded is None:", "if True:"),
        faults=("reset", "kill", "cut-clients"),
    ),
    Bug(
        "lost_answer_begins_a_new_epoch",
        "A batch whose answer was lost is sent again in a new epoch, in which the broker does not recognise it.",
        Edit(
            Answers._retry,
            "if verdict in (Verdict.RESET, Verdict.RENEW):",
            "if verdict in (Verdict.RESET, Verdict.RENEW) or answer.error == ErrorCode.NETWORK_EXCEPTION:",
        ),
    ),
    Bug(
        "lost_answer_is_success",
        "A batch whose broker did not answer counts as delivered.",
        Edit(Sender._unanswered, "Answer(ErrorCode.NETWORK_EXCEPTION,", "Answer(ErrorCode.NONE,"),
        faults=("reset", "kill", "cut-clients"),
    ),
    Bug(
        "timed_out_request_is_success",
        "REQUEST_TIMED_OUT of the broker counts as delivered: it was appended, after all.",
        Edit(
            idempotence.judge,
            "if error in _WRITTEN:",
            "if error in _WRITTEN or error == ErrorCode.REQUEST_TIMED_OUT:",
        ),
    ),
    Bug(
        "retried_batch_goes_to_the_end_of_the_line",
        "A batch that is sent again comes after those that waited behind it.",
        Edit(
            PartitionQueue.put_back,
            "next((i for i, each in enumerate(self.waiting) if each.order > order), len(self.waiting))",
            "len(self.waiting)",
        ),
    ),
    Bug(
        "first_batch_does_not_go_alone",
        "Batches follow the first one of an epoch before the broker knows the producer.",
        Edit(
            PartitionQueue.may_send,
            "if is_again or self._goes_alone or self._reset_order is not None:",
            "if is_again or self._reset_order is not None:",
        ),
        faults=("reset", "kill"),
    ),
    Bug(
        "out_of_order_always_resets",
        "A batch that was refused because an earlier one is missing is numbered anew, though that one is retried.",
        Edit(
            idempotence.judge, "return Verdict.RESET if is_first else Verdict.RETRY", "return Verdict.RESET"
        ),
        Edit(
            PartitionQueue.settle,
            "if self.in_flight or self._has_numbered_before(self._reset_order):",
            "if self.in_flight:",
        ),
        faults=("reset", "kill"),
    ),
    Bug(
        "acks_all_is_sent_as_acks_one",
        "The producer's acks setting does not reach the request.",
        Edit(Sender._ask, "acks=self._settings.acks,", "acks=1,"),
        faults=("kill", "chase", "kill-two"),
    ),
    Bug(
        "answers_are_given_to_the_wrong_batches",
        "Answers are taken in the order of the request, not by partition.",
        Edit(
            Sender._learn, "answer = found.get(batch.partition)", "answer = next(iter(found.values()), None)"
        ),
    ),
    Bug(
        "timer_is_set_once",
        "The time of the next look for batches is not forgotten when it has come.",
        Edit(Sender._pump, "self._timer, self._timer_ms = None, NEVER", "self._timer = None"),
        faults=("reset", "kill"),
    ),
    Bug(
        "slot_of_a_failed_request_is_lost",
        "A request without an answer counts as under way for ever.",
        Edit(
            Sender._deliver,
            "self._in_flight[node_id] -= 1",
            "self._in_flight[node_id] -= answers[batches[0]].error != ErrorCode.NETWORK_EXCEPTION",
        ),
        faults=("reset", "kill"),
    ),
)
