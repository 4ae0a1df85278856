"""Decisions of reading without an event loop. Pure.

range_fetches   the fetches of one range of offsets: whom to ask, when to ask again, which offsets are lost
ledger_entries  the decisions of writers whose transactions are committed one by one
"""
