"""The gateway: the cluster over HTTP, WebSocket and gRPC, in a process of its own.

gateway         the composition root: listener, routes, clients, start and stop
http            the HTTP core; it knows nothing of Kafka
cluster         the way to the cluster: callers act as themselves, by shared clients
console         a web page about the cluster, and the JSON that it shows
records         records as callers write and read them: JSON, base64, where a read begins
registry        a schema registry, with the API of Confluent's, kept in the topic `_schemas`
schema_values   keys and values by the registry's schemas, as JSON
rest            REST: Confluent's v2 and v3, and stateless reads
subscriptions   a consumer whose records are pushed, with credits and acknowledgements
websocket       subscriptions and produce over a WebSocket
grpc            the same and more over gRPC: the package `ottla.v1`

It speaks to the cluster through `ottla.client` only, so it works in front of Apache Kafka, too. A sub-room that
serves other routes (such as a schema registry) hands them to `gateway.py`, which puts all routes into one table.
Only this room imports h11 and wsproto (the extra `ottla[gateway]`), and grpc (`ottla[grpc]`).
"""
