"""Records as callers over HTTP and WebSocket write and read them.

machine      JSON values and record bytes; where a read begins; which records of a consumer are done
producing    records to the cluster, with an outcome for each
idempotent   requests with an Idempotency-Key: their records are sent once
"""
