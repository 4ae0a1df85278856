"""Which handler answers which API. Produce is not here: connections gather it themselves (see apis/produce.py).

A handler is imported with the first request for it: most brokers are never asked most things, and every module that is
not loaded makes the start a little faster.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Final

from ottla.protocol.apis import ApiKey
from ottla.server.gate.dispatch import Handler

# The module in this package, and the function in it.
HANDLERS: Final[Mapping[ApiKey, tuple[str, str]]] = {
    ApiKey.FETCH: ("fetch", "fetch"),
    ApiKey.LIST_OFFSETS: ("offsets", "list_offsets"),
    ApiKey.METADATA: ("cluster", "metadata"),
    ApiKey.OFFSET_COMMIT: ("group_offsets", "offset_commit"),
    ApiKey.OFFSET_FETCH: ("group_offsets", "offset_fetch"),
    ApiKey.FIND_COORDINATOR: ("coordinator", "find_coordinator"),
    ApiKey.JOIN_GROUP: ("groups", "ask_coordinator"),
    ApiKey.HEARTBEAT: ("groups", "heartbeat"),
    ApiKey.LEAVE_GROUP: ("groups", "ask_coordinator"),
    ApiKey.SYNC_GROUP: ("groups", "ask_coordinator"),
    ApiKey.DESCRIBE_GROUPS: ("groups", "describe_groups"),
    ApiKey.LIST_GROUPS: ("groups", "list_groups"),
    ApiKey.API_VERSIONS: ("api_versions", "api_versions"),
    ApiKey.CREATE_TOPICS: ("topics", "submit"),
    ApiKey.DELETE_TOPICS: ("topics", "submit"),
    ApiKey.DELETE_RECORDS: ("offsets", "delete_records"),
    ApiKey.INIT_PRODUCER_ID: ("producer_ids", "init_producer_id"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ("offsets", "offset_for_leader_epoch"),
    ApiKey.DESCRIBE_CONFIGS: ("cluster", "describe_configs"),
    ApiKey.ALTER_CONFIGS: ("topics", "submit"),
    ApiKey.DESCRIBE_LOG_DIRS: ("log_dirs", "describe_log_dirs"),
    ApiKey.CREATE_PARTITIONS: ("topics", "submit"),
    ApiKey.DELETE_GROUPS: ("groups", "delete_groups"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("topics", "submit"),
    ApiKey.OFFSET_DELETE: ("group_offsets", "offset_delete"),
    ApiKey.DESCRIBE_CLUSTER: ("cluster", "describe_cluster"),
    ApiKey.LIST_CONFIG_RESOURCES: ("cluster", "list_config_resources"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ("cluster", "describe_topic_partitions"),
    ApiKey.ELECT_LEADERS: ("topics", "submit"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ("topics", "submit"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ("cluster", "list_partition_reassignments"),
    ApiKey.DESCRIBE_QUORUM: ("quorum", "describe_quorum"),
    ApiKey.UPDATE_FEATURES: ("topics", "submit"),
    ApiKey.UNREGISTER_BROKER: ("topics", "submit"),
    # Not advertised: for nodes among themselves.
    ApiKey.VOTE: ("quorum", "ask_member"),
    ApiKey.BEGIN_QUORUM_EPOCH: ("quorum", "ask_member"),
    ApiKey.END_QUORUM_EPOCH: ("quorum", "ask_member"),
    ApiKey.FETCH_SNAPSHOT: ("quorum", "ask_member"),
    ApiKey.ENVELOPE: ("quorum", "envelope"),
    ApiKey.BROKER_REGISTRATION: ("brokers", "register"),
    ApiKey.BROKER_HEARTBEAT: ("brokers", "heartbeat"),
    ApiKey.ALTER_PARTITION: ("brokers", "decide"),
    ApiKey.ALLOCATE_PRODUCER_IDS: ("brokers", "decide"),
}


@cache
def handler_of(api_key: int) -> Handler | None:
    """The handler of an API; None if there is none."""
    try:
        module, name = HANDLERS[ApiKey(api_key)]
    except (ValueError, KeyError):
        return None
    handler: Handler = getattr(import_module(f"{__package__}.{module}"), name)
    return handler
