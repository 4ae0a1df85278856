"""What counts as an alarm in a broker's output."""

from tests.chaos.false_alarms import Calm, alarms_in, told

OUTPUT = """\
INFO    ottla.server.quorum.quorum: this node is the active controller in epoch 4
WARNING ottla.server.quorum.controller_duties: broker 2 is not heard of any more: it is fenced, others lead for it
INFO    ottla.server.replicas.isr_proposals: the in-sync replicas of orders-0: shrank (1,) ((1, 2) before)
INFO    ottla.server.replicas.isr_proposals: the in-sync replicas of orders-0: grew (1, 2) ((1,) before)
ERROR   ottla.server.replicas.isr_proposals: the log of partition 0 of topic x does not reach its followers: \
another in-sync replica should lead
WARNING ottla.server.quorum.broker_membership: the controller does not know this broker any more: registering again
"""


def test_each_decision_after_a_timeout_is_counted_and_others_are_not() -> None:
    found = alarms_in(OUTPUT)
    assert set(found.values()) == {1}
    assert not alarms_in("INFO the in-sync replicas of orders-0: grew (1, 2) ((1,) before)").total()


def test_the_numbers_are_told() -> None:
    words = told(Calm(alarms_in(OUTPUT), [9.0, 11.0, 10.0], 500, 1, 0.25))
    assert "brokers fenced: 1" in words
    assert "9.0 to 11.0, mostly 10.0" in words
    assert "500 acknowledged, 1 failed, the slowest took 0.25 s" in words
