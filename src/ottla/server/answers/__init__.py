"""Answers that leave now or later, and what they wait for.

send_queue   the parts of an answer, sent in order: bytes, and ranges of files by sendfile
deferred     an answer that a callback completes
watermark    an offset that rises, and the callers that wait for it
"""
