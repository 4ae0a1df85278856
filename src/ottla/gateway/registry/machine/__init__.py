"""The schema registry as a replicated machine over the records of `_schemas` (`ottla.schemas.registry`). Pure.

subjects        names of subjects and their contexts
problems        refusals, with Confluent's numbers
catalog         the state that the records make, and every question about it
references      the schemas that a schema refers to, and those behind them
registration    a new schema: known already, compatible or refused
deletion        soft and hard deletes
settings        compatibility levels and modes
submissions     bodies and addresses of requests as values
decision        records to write, and the answer once they are written
"""
