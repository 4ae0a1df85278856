"""From a topic to its table.

job            one commit: plan, write files, commit; and again, for as long as is wanted
task           one range of offsets becomes files, on an executor or here
merging        buckets of an upsert table are written again
file_writer    rows become Parquet files of a sensible size, one for each part of the table
engines        where tasks run: in this process, or on Spark
"""
