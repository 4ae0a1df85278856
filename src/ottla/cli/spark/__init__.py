"""Commands that start Spark (the extra `ottla[spark]`).

pipeline, pipeline_updates, pipeline_view, pipeline_status   `ottla pipeline`: running updates, the live view, the status
audit                                                        `ottla audit`: a topic compared with its table
"""
