"""Finding and asking the right broker.

machine            the client core: routing, retries and knowledge of the cluster; pure
connections        one asyncio connection per broker; carries out the steps of the machine
topology           the topics in use, kept up to date in the background
coordinator        the coordinator of a consumer group: commits and committed offsets
notices            the log `ottla.client`: what a client waits for
backoff            the pauses between retries
background_tasks   tasks that end with their owner
"""
