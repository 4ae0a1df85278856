"""REST: Confluent's v2 as its users call it, and what it lacks.

machine      bodies of requests and answers; which instances there are
produce      POST /topics/{topic}: records in
topics       GET /topics, /brokers: what there is
consumers    /consumers/...: the routes of consumer instances
instance     one consumer instance: a consumer, its records, its offsets
instances    all consumer instances of this gateway; the idle ones end
reads        GET /topics/{topic}/partitions/{partition}/records: reads without an instance
events       GET /topics/{topic}/events: a live tail as Server-Sent Events
"""
