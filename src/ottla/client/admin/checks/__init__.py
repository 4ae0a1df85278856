"""What is wrong with a running cluster, and what to do about it: for `ottla doctor` and the console.

findings             a finding, and all findings of one examination
cluster_check        topics, replicas, disks and clocks; `examine_cluster` asks for all of it as an administrator
transaction_check    open transactions that hold readers back
waiting_partitions   partitions without a leader, in sentences
durations            durations in words
"""
