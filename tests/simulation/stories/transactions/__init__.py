"""Transactions in stories: who writes and reads in them, and what must stay true.

cast         which stories have transactions; their clients, and the end of such a story
book         transactions as their producers know them
writers      producers with a transactional id: commits, aborts, crashes, rivals with the same id
processors   members of a group that read, write and commit offsets in one transaction
readers      readers of committed records
stability    last stable offsets while brokers run
fates        what the markers in a log say about its records
audit        what is checked at the end
cycles       transactions that would have to come before themselves
"""
