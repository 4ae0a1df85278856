"""One replicated partition: what its leader may call committed, and what its followers do. Pure.

events             the events and effects of the leader's machine
partition          the leader's machine: high watermark, in-sync replicas, when it stops accepting writes
isr                the in-sync replicas and the one change of them that is under way
follower_state     what a leader knows of one follower
follower_progress  when the fetches of a follower's session count as news of a partition
stuck_followers    followers that ask for the same records again: the leader looks at them
isolation          a leader without a controller or with a broken log
follower           the follower's machine: what to ask the leader for, and what to do with the answer
divergence         where two logs differ, judged by leader epochs
nearest_replica    the follower that a consumer in another rack should read from (KIP-392)
log_holes          a log that lost records in the middle
fetch_session      incremental fetch sessions of consumers (KIP-227)
"""
