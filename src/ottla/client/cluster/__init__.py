"""Finding and asking the right broker.

connections        one connection per broker, opened when needed
topology           leaders of the topics in use, refreshed in the background
routing, retries   which broker answers for what; which failures are retried, and when
coordinator        the coordinator of a consumer group
background_tasks   tasks that end with their owner
"""
