"""The HTTP core: connections in, requests to their routes, answers out. It knows nothing of Kafka.

machine           the values and decisions: routes, media types, problems, logins, origins
server            the listener: its connections, their limit, the graceful stop
connection        one connection: h11 parses, deadlines guard, requests are answered one after the other
dispatch          one request: its route, its parameters, its handler; every failure becomes an answer
web_socket        one WebSocket after the upgrade: wsproto parses, messages in and out
access_log        one line for each request
description       OpenAPI, and a page about it, from the table of routes
"""
