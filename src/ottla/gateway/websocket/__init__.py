"""Subscriptions and produce over a WebSocket, in JSON messages.

machine         messages in; which records may be sent, and which are acknowledged
sockets         all open WebSockets of this gateway: their routes, their number, and how they end
conversation    one WebSocket: messages in, answers out
subscription    the subscription of one WebSocket: a consumer whose records are pushed
client.js       a client for browsers and Node, which reconnects
"""
