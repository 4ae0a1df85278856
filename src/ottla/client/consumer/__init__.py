"""The consumer.

consumer                                 the public class
reading                                  everything that a poll has to attend to
subscription, positions, commits         what is read, from where, and what is committed
processing, record_worker                at least once, at most once, with several workers
plan                                     the decisions: turns of partitions, settings, which records are done
"""
