"""Records and JSON, without a cluster.

embedded     REST v2's formats: the key and value of a record as JSON, or as base64
described    any record as JSON, with a note on each part that is not JSON itself
produced     the records of a produce request
idempotency  what became of requests that had an Idempotency-Key
start        where a read begins: an offset, an end of the log, a time
handover     the records that a consumer has read, those that a caller got, and those that it is done with
"""
