"""`ottla tiers`: what the object store holds.

commands      the commands
store_check   the metadata compared with the objects of the store
"""
