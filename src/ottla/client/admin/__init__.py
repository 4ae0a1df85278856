"""The administrator.

admin         the public class
plan          its questions: which broker is asked what
record_peek   single records at given offsets
client_metrics  clients that push metrics, and the subscriptions to them
group_details   one group in detail: members, lag, distance to deletion
offset_resets   plans to move the offsets of a group
"""
