"""The producer.

producer                                       the public class
sender, produce_requests                       batches become requests, answers come back
topics, broker_loads                           metadata and load of the brokers it writes to
delivery, delivery_outcomes                    what a sender awaits, and telling it
serializers                                    text, JSON and Avro
machine                                        the decisions: batching, order, idempotence, retries, partitioning
"""
