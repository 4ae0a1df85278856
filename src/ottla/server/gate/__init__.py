"""The gate that every request passes: admission, session, API and version, handler, answer.

dispatch        the gate itself: from a frame to its handler or gatherer, from the answer to the parts that leave
handlers        what handlers and gatherers are, and how they are registered beside themselves
session         one connection as handlers see it: client id, software, listener, peer address
request_counts  how many requests of each API there were, how long they took, and their errors
login           logins: how far each session's is, how often they may fail
signing_keys    the keys of an identity provider, read again and again, and the tokens that they sign
basis           what remembered decisions (the fast path of repeated requests) rest on
rights          whether a session may do what it asks for
audit           a line of JSON for each decision about a right
quotas          how much a session may send, read and keep the broker busy
request_time    the loop's time that a request takes
services        the parts of the broker that handlers use
"""
