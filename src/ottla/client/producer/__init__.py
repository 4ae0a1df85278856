"""The producer.

producer            the public class
writing             the parts of a producer between the application and the cluster
sender              batches become requests, answers come back
produce_requests    Produce and InitProducerId
producer_ids        the producer id of an idempotent producer
transactions, transaction_coordinator
                    transactions, and the requests to their coordinators
offset_sources      whose offsets a transaction commits
topic_metadata      the topics that are written to
buffer_room         callers that wait for room in the buffer
broker_loads        the load that brokers report
delivery            the handle of a record that was sent
delivery_outcomes   wakes callers, calls callbacks, keeps errors that no caller has seen
tracing             spans of OpenTelemetry for records that are sent and processed
serializers         text, JSON and Avro
machine             the decisions: batching, order, idempotence, transactions, retries, partitioning
"""
