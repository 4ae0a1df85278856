"""Assignors: which member of a group reads which partitions, as Java's clients decide it. Pure.

assignors              range, round robin, sticky and cooperative sticky by name
plain_assignors        range and round robin
sticky_assignor        sticky, when all members subscribe to the same topics
uneven_subscriptions   sticky, when members subscribe to different topics
java_order             the order of Java's hash maps, which decides between equal assignments
"""
