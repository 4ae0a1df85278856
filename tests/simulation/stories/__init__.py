"""Stories: shipped brokers and clients under faults drawn from a seed, and what must stay true in all of them.

story        one seed: start, faults, healing, checks
settings     the settings of nodes and clients in a story
ledger       what clients were told, and what follows from it
clients      what clients have in common; an administrator
writers      clients that write, under several promises
pipelines    a client that asks several things at once on one connection
sequences    a client that sends batches of one producer in order, and again in order
copies       on how many disks an acknowledged record is
readers      clients that read again and again; members of a group
transactions which stories have transactions; their clients and checks
faults       the faults, by name; healing
fault_kind, process_faults, disk_faults, network_faults, deeds
             the faults by kind; what an administrator does
security     stories with logins, rights and quotas, and what an administrator does to them
rot          closed segments that are damaged, in some stories
voter_changes
             voters that are removed and added, in some stories
losses       which node may lose what is on its disk
watcher      what is checked while brokers run
metadata_review, vote_review
             images of the metadata and the changes between them; votes as they are said
audit        what is checked at the end
town         three nodes with default settings and a client that always writes, for measuring
"""
