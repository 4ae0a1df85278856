"""Bugs planted in shipped code, to see that stories find them.

Each is a mistake that a person could make, or has made; a patch puts it in for one story, or one test, and takes it out
again.
Nothing of this is in `src`.

bug           a bug as a change of functions, and the faults that bring it to light
found_by      what finds each: the seed of a story, or a test
catalogue     all bugs by name
search        looks for each bug: `python -m tests.simulation --bugs`
run_planted   runs one test with a bug
replication, controller, partitions, followers, groups, quorum, requests, logs, producers, consumers,
security
              the bugs, by the room that they are planted in
"""
