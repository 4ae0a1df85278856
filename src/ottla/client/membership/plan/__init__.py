"""Assignors: who in the group reads which partitions, as Java's clients decide it. Pure.

assignors                                range, round robin, sticky and cooperative sticky by name
plain_assignors                          range and round robin
sticky_assignor, uneven_subscriptions    sticky, when all members subscribe to the same topics and when not
java_order                               the order of Java's hash maps, which decides between equal assignments
"""
