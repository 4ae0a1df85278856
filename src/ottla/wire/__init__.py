"""One connection that asks, on asyncio.

connection      a connection to a broker: versions negotiated, requests pipelined
stream          frames out and back on a socket
frame_reader    bytes become whole frames
versions        which version of each API both sides speak
login           who this side is, where the other side asks
oauth_tokens    the token that a login by OAUTHBEARER shows
deadlines       many deadlines with one timer
tls             what a connection needs to speak TLS
failures        the exceptions of a connection
socket_errors   messages for errors of sockets
"""
