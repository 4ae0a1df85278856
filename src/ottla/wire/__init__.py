"""One connection that asks, on asyncio.

connection, stream, frame_reader   versions negotiated, requests pipelined; bytes in and out; frames
deadlines, failures, address       timeouts, failures in words, addresses
"""
