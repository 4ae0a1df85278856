"""What a registry keeps in its topic `_schemas`. Pure.

values            versions of subjects, settings, modes
records           Confluent's record format
registered        which schemas are registered under which subject, for a broker that checks records
"""
