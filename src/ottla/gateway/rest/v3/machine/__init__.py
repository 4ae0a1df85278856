"""REST v3 without a cluster.

resources        the JSON of clusters, topics, settings and groups
topic_bodies     the bodies that create topics and change settings
json_stream      JSON objects, one after the other, out of bytes that come in pieces
stream_records   one record of a stream, and its answer line
"""
