"""The gate that requests pass: API and version checked, request decoded, handler called, response encoded.

dispatch   from a frame to its handler
services   the parts of the broker that handlers use
"""
