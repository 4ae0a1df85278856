"""A WebSocket's decisions, without a socket.

messages            what a caller says, parsed and checked
acknowledgements    the records of one partition that were sent, and those that are acknowledged
flow                how many records may be sent, which wait, and what can be committed
"""
