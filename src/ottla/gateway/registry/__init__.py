"""A schema registry: the API of Confluent's, stored in the compacted topic `_schemas`.

machine         every decision, as a replicated machine; pure
schemas_topic   the topic, followed into a catalog in memory; reads that know all writes before them
writer          changes, by the one gateway that has the right to write
registry        what the routes ask: questions from memory, changes to the topic
readers         who may read
door            what the routes share: media types, who may read, refusals
subject_routes  subjects, versions, registration, compatibility
schema_routes   schemas by id and GUID, contexts
setting_routes  compatibility levels and modes
"""
