"""One connection that asks, on asyncio.

connection      a connection to a broker: versions negotiated, requests pipelined
stream          frames out and back on a socket
frame_reader    bytes become whole frames
versions        which version of each API both sides speak
deadlines       many deadlines with one timer
failures        the exceptions of a connection
socket_errors   messages for errors of sockets
"""
