"""The producer.

producer            the public class
sender              batches become requests, answers come back
produce_requests    Produce and InitProducerId
topic_metadata      the topics that are written to
buffer_room         callers that wait for room in the buffer
broker_loads        the load that brokers report
delivery            the handle of a record that was sent
delivery_outcomes   wakes callers, calls callbacks, keeps errors that no caller has seen
serializers         text, JSON and Avro
machine             the decisions: batching, order, idempotence, retries, partitioning
"""
