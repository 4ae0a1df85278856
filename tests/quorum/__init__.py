"""Stories of a quorum: the Raft machine alone, driven by events that a seed draws (`python -m tests.quorum`).

A story takes milliseconds, so that thousands look into corners that whole nodes (`tests/simulation`) reach rarely.

story          one seed: voters, observers, faults, healing
cluster        time, clocks, the order of events
network        messages late, lost, doubled, overtaken; links that are cut
member         carries out the machine's effects on a model of a disk, and checks each
model_disk     a log, votes and snapshots that a loss of power cuts back
codec          messages on their way through Kafka's bytes
checks         what must stay true
planted_bugs   bugs that the stories find
"""
