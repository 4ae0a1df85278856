"""Which handler answers which API. Produce is not here: connections gather it themselves (see apis/produce.py)."""

from collections.abc import Mapping
from typing import Final

from ottla.protocol.apis import ApiKey
from ottla.server.apis.api_versions import api_versions
from ottla.server.apis.cluster import (
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    list_config_resources,
    metadata,
)
from ottla.server.apis.coordinator import find_coordinator
from ottla.server.apis.fetch import fetch
from ottla.server.apis.group_offsets import offset_commit, offset_fetch
from ottla.server.apis.groups import ask_coordinator, delete_groups, describe_groups, list_groups
from ottla.server.apis.log_dirs import describe_log_dirs
from ottla.server.apis.offsets import delete_records, list_offsets, offset_for_leader_epoch
from ottla.server.apis.producer_ids import init_producer_id
from ottla.server.apis.topics import submit
from ottla.server.dispatch import Handler

HANDLERS: Final[Mapping[ApiKey, Handler]] = {
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.METADATA: metadata,
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.JOIN_GROUP: ask_coordinator,
    ApiKey.HEARTBEAT: ask_coordinator,
    ApiKey.LEAVE_GROUP: ask_coordinator,
    ApiKey.SYNC_GROUP: ask_coordinator,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.CREATE_TOPICS: submit,
    ApiKey.DELETE_TOPICS: submit,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: submit,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: submit,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: submit,
    ApiKey.OFFSET_DELETE: ask_coordinator,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.LIST_CONFIG_RESOURCES: list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
}
