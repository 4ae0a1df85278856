"""TCP: the listener, its connections, and what they are limited to.

listener           accepts connections, enforces the limits on them, ends idle ones
connection         one client: frames in, answers out in request order, back-pressure
receive_buffer     received bytes and the frames in them
descriptor_limit   how many files and sockets this process may open
"""
