"""The consumer.

consumer           the public class
reading            everything that a poll has to attend to
group_membership   owns the member's session and its subscription
subscription       what a member reads, and how partitions change hands
positions          where to begin in partitions without a position
commits            the application's positions become committed offsets
processing         `at_least_once` and `at_most_once`, with several workers
record_worker      what a consumer asks of a worker that has several records in hand
plan               the decisions: turns of partitions, settings, which records are done
"""
