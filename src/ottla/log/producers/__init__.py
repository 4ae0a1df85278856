"""Producers as a log knows them: idempotence and transactions.

producer_state, producer_snapshot   the state, and how it is kept on disk
failed_writes                       producers whose batch met a failing disk
"""
