"""HTTP as far as it needs no socket: the values and decisions of the core.

message         a request and an answer
http_error      an answer that says what is wrong
media_types     Content-Type and Accept
credentials     the Authorization header
parameters      what a route reads from its query, declared and checked
routes          the table of routes: which handler serves a method and a path
json_bodies     JSON in, JSON out
openapi         the description of all routes, for programs
docs_page       the same for people
origins         which web pages may call (CORS)
"""
