"""Commands that administer a cluster through a client.

topics, topic_details                  `ottla topics`; one topic in detail
topic_differences                      how a topic that exists differs from the one that was asked for
configs                                `ottla configs`: the settings of running brokers
features                               `ottla features`: the levels that the cluster works at
groups                                 `ottla groups`
clients                                `ottla clients`: clients that push metrics
acls, resource_options                 `ottla acls`: who may do what; the options that name resources
tokens                                 `ottla tokens`
users, password_options                `ottla users`; where a password comes from
quotas                                 `ottla quotas`: how much clients may send, read and ask for
transactions                           `ottla transactions`: open ones, their producers, those that hang
"""
