"""Bugs planted in shipped code, to see that stories find them.

Each is a mistake that a person could make, or has made; a patch puts it in for one story and takes it out again.
Nothing of this is in `src`.

bug           a bug as a change of functions, and the faults that bring it to light
found_by      the seed with which each was found last
catalogue     all bugs by name
search        looks for each bug, story by story: `python -m tests.simulation --bugs`
replication, controller, partitions, followers, groups, quorum, requests, logs, producers, consumers
              the bugs, by the room that they are planted in
"""
