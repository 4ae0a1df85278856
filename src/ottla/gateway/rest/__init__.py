"""REST: Confluent's v2 and v3 as their users call them, and what they lack.

machine      bodies of requests and answers; which instances there are
produce      POST /topics/{topic}: records in
transactions /transactions: records of several topics, all or none
transaction  one transaction: a producer of its own
topics       GET /topics, /brokers: what there is
consumers    /consumers/...: the routes of consumer instances
instance     one consumer instance: a consumer, its records, its offsets
instances    all consumer instances of this gateway; the idle ones end
instance_owner  which gateway has an instance, as its member of the group says
reads        GET /topics/{topic}/partitions/{partition}/records: reads without an instance
events       GET /topics/{topic}/events: a live tail as Server-Sent Events
v3           Confluent's v3: clusters, topics, settings, groups with lag, streams of records
"""
