"""Commands that administer a cluster through a client.

topics, topic_details                  `ottla topics`; one topic in detail
topic_differences                      how a topic that exists differs from the one that was asked for
configs                                `ottla configs`: the settings of running brokers
groups, group_details, offset_resets   `ottla groups`; one group in detail; plans to move its offsets
"""
