"""Topics whose records must name a registered schema (`schema.validation`).

plan/named_schemas   the schemas that the records of a batch name
schemas_topic        which schemas are registered: the topic `_schemas`, followed while records are checked
"""
