"""The administrator.

admin         the public class
plan          its questions: which broker is asked what
record_peek   single records at given offsets
log_batches     batches as they lie in the log
record_life     one record's life, from what the cluster knows
trace_context   the W3C trace context in a record's headers
client_metrics  clients that push metrics, and the subscriptions to them
group_details   one group in detail: members, lag, distance to deletion
checks        what is wrong with a cluster, for `ottla doctor` and the console
offset_resets   plans to move the offsets of a group
"""
