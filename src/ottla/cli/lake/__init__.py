"""Commands for topics as tables (the extra `ottla[lake]`).

commands      `ottla lake`: enable, run, status, check, compact, expire, disable
options       the options that its commands share, and failures in one sentence
verdicts      the result of `ottla lake check`
sql           `ottla sql`: a query over topics and their tables
result_form   its result as a table, JSON, CSV or Parquet
"""
