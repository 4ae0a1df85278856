"""The console: a web page about the cluster, and the JSON that it shows (`docs/console.md`, decision 0019).

console         the routes of this room, put together
page            the page and its scripts, from `static`: hashed, compressed, under a strict content policy
door            what all routes of the API share: who asks, whether it may change something, refusals
sessions        logins to the console, by a cookie
home            is the cluster well, and its rates and lag over the last hours
sampling        asks for rates and lag while somebody looks
topics          topics, their partitions, settings, readers and writers
topic_figures   records and bytes of topics
records         find, show, follow and export records
record_search   reads ranges of partitions until enough was found
decoding        keys and values by the schemas of the registry
groups          groups and their lag
brokers         brokers, their load, moves under way
transactions    open transactions, and who holds readers back
rights          users, ACLs and quotas
schemas         subjects and their versions
actions         what the console can change: shown first, then done
*_actions       the changes, by what they change
broker_control  brokers of a local cluster, which whoever started the gateway can start and stop
move_planner    how replicas should lie, decided by whoever started the gateway
machine         decisions: sessions, pages of lists, windows of a search, history, command lines
static          the page; `preact.js` is preact and htm, vendored
"""
