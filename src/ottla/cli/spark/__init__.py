"""Commands that start Spark (the extra `ottla[spark]`).

pipeline             `ottla pipeline`
pipeline_updates     its updates, run at a terminal
pipeline_view        the live view of a running update
pipeline_status      `ottla pipeline status`
audit                `ottla audit`: a topic compared with its table
"""
