"""The metadata quorum as a machine (docs/raft.md). Pure: events in, effects out.

replica, events, messages            the door, what it hears and answers, the messages between nodes
node, transitions                    shared state with the table of transitions, and what happens on each
election, leadership, following      the parts that act in a state
vote_recovery, membership            how a voter that lost its disk earns its vote back; voters added and removed
requests, responses, request_handling  Kafka's messages in both directions, and the answers to other nodes
leader_change, voter_records         the control records of the log
log_view, quorum_state, voters, settings, description   values
"""
