"""What is promised when machines, disks and processes fail: one declared table, and a tale for each of its cells.

table     a promise for each fault and setting, with the tales and the test on real processes that show each of them;
          `docs/cluster.md` has the same table, generated from this one
tales     what happens in a tale: records are written, faults follow, brokers come back
stage     a simulated cluster of shipped brokers on which tales are played, and what must be true at the end
"""
