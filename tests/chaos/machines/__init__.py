"""Brokers on machines of their own, as far as one kernel can play several; needs root, nft and mkfs.ext4.

network   a network namespace for each broker and a router between them that loses packets
disks     a file system for each broker that can lose power, fill up, or be replaced
commands  what the system is asked to do, and whether it can
cluster   the brokers' processes, with the commands of a local cluster
faults    the kinds of fault that only machines have
"""
