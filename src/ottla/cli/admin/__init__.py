"""Commands that administer a cluster through a client.

topics, topic_details                  `ottla topics`; everything there is to show about one topic
configs                                `ottla configs`: the settings of running brokers
groups, group_details, offset_resets   `ottla groups`; members, offsets and lag of a group; plans to move its offsets
"""
