"""Tables on disk or in object storage, in three formats behind one protocol.

table        the protocol: a snapshot, its files, a commit that loses to a concurrent one
parts        days, hours and buckets, by which a table is divided
schemas      Arrow schemas of tables: how they grow, and what does not fit
iceberg      Iceberg through pyiceberg
delta        Delta through delta-rs
parquet      a directory of Parquet files with a log of manifests
storage      files by their location
"""
