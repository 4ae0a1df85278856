"""A WebSocket's decisions, without a socket.

messages            what a caller says, parsed and checked
"""
