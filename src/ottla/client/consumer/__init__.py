"""The consumer.

consumer           the public class
reading            everything that a poll has to attend to
group_membership   owns the member's session and its subscription
batch_iteration    `async for` over batches
subscription       the topics and partitions of a member, and how partitions change hands
positions          the first positions in partitions that have none
poll_notices       lines in the log about polls that wait in vain, or for long
commits            the application's positions become committed offsets
processing         `at_least_once` and `at_most_once`, with several workers
record_worker      the interface of a worker that processes several records at once
plan               the decisions: turns of partitions, settings, which records are done
"""
