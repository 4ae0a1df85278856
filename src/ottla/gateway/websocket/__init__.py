"""Subscriptions and produce over a WebSocket, in JSON messages.

machine         messages in
sockets         all open WebSockets of this gateway: their routes, their number, and how they end
conversation    one WebSocket: messages in, answers out
pushes          a subscription's records and partitions as messages
client.js       a client for browsers and Node, which reconnects
"""
