"""Guards: what handlers are asked, and what they answer, is reduced to the caller's rights.

guarded        the guard of each API, in front of its handler
steps          the checks of the table as steps of a guard: refuse a request, refuse items, hide items
refusals       the answer to a request that says nothing but an error
fetch, offset_fetch, transactions, descriptions, delegation_tokens   guards of requests whose shape is their own

A broker without an authoriser has no guards. Produce and Metadata check inside their handlers, where the topics are
known; so does Fetch for consumers, because a fetch waits and a session goes on while rights change.
"""
