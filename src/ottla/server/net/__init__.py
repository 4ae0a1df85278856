"""TCP: the listener, its connections, and what they are limited to.

listeners          all listeners of a node
listener           accepts connections at one address, ends idle ones
admission          the limits on connections, over all listeners
entrance           what a connection passes on its way in
tls_door           what listeners with TLS share
certificates       the broker's certificate, loaded again when it changes
handshakes         TLS handshakes that are under way
refusal_log        refused connections in the log, few lines for many
throttled_sockets  connections of addresses that make too many
connection         one client: frames in, answers out in request order, back-pressure
receive_buffer     received bytes and the frames in them
descriptor_limit   how many files and sockets this process may open
"""
