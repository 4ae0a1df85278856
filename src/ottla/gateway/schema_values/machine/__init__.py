"""Values by schemas, without a registry.

formats             the formats with schemas, their media types, and the schemas that a request's body names
"""
