"""Topics as DataFrames: the options, the pure plans of what to read, the two readers on the driver, and
`scan` on executors.

Nothing is imported here: Spark starts a Python process for each step of a query, and each imports only what
it needs.
"""
