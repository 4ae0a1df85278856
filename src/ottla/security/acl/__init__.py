"""Access control lists: who may do what. Pure.

rules        Kafka's resources, operations and patterns; one ACL, and filters that find ACLs
acl_table    ACLs by pattern and principal
authoriser   whether a principal may do something, and by which rule
checks       the table: each API, the rights that it asks for, and the answer to a refused caller
"""
