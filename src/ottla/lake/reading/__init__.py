"""One query over a topic's table and its log.

query        the plan: a snapshot of the table, the end of the log, and what the filters want of both
expressions  comparisons as Arrow's filters
cold         rows from the table's files
hot          rows from the log after the seam
log_spool    rows of the log in memory, or in files if they are many
newest       the same for an upsert table
scan         both as one stream of Arrow batches
"""
