"""The killing test of transactions: `make chaos ARGS="--transactions"`.

client       what every client here has: its thread, its entries in the book of transactions
confluent    writers, processors and readers around librdkafka
java         a writer around the Java client
own          the same with Ottla's clients
run          the cluster, the faults, the end, and the audit
report       the verdict as a page

A writer sends transactions to several partitions of one topic, and aborts some of them. Processors, members of
one group, read committed records, write one record for each to another topic, and commit the offsets in the
same transaction; some records they also write back to the first topic, so that a circular flow would show.
Readers of both isolation levels read everything. The book and the audit are those of the simulation
(`tests/simulation/stories/transactions`).
"""
