"""Plain values, and their translation to and from Kafka's messages. Pure.

metadata, brokers, quorum, topics, configs, reassignments   the cluster as clients and administrators see it
offsets                                                     ListOffsets and DeleteRecords
groups, group_offsets, consumer_protocol                    consumer groups: descriptions, commits, Kafka's subscription format
member_events, member_requests                              what a group member hears and asks
outcomes                                                    a value or an error for each thing a request named
"""
