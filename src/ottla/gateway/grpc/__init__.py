"""gRPC: the services of the package `ottla.v1`, for programs of any language that protoc generates clients for.

proto/ottla/v1/gateway.proto    the services and their messages: the only declaration of them
machine      requests checked, statuses of errors, records as messages
messages     the classes of the messages, made from the .proto text when the room is imported
calls        around every call: who calls, limits, errors as statuses, the log
producing    ProducerService
consuming    ConsumerService
topics       TopicService
groups       GroupService
server       the listener: TLS, health, reflection, start and stop

Why there are no generated files: docs/decisions/0022-messages-from-the-proto-text.md. Only this room imports grpc
(the extra `ottla[grpc]`).
"""
