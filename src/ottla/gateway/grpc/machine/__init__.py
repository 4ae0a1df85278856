"""The decisions of gRPC, without a connection. Messages of Protobuf are plain objects with fields here.

requests    what callers ask for, checked
statuses    the status of an error, and its details
"""
