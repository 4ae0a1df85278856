"""Which family serves which API.

A family is imported with the first request for one of its APIs: most brokers are never asked most things, and
every module that is not loaded makes the start a little faster. The handlers are registered in the families
themselves (gate/handlers.py); a test holds that each family is found by all of its keys.
"""

from functools import cache

from ottla.protocol.apis import ApiKey
from ottla.server.gate.handlers import ApiFamily, Registration


@cache
def registered(api_key: int) -> Registration | None:
    """The handler of an API; None if the API is not served."""
    family = _records(api_key) or _groups(api_key) or _transactions(api_key) or _metadata(api_key)
    return None if family is None else family.registered[api_key]


def _records(api_key: int) -> ApiFamily | None:
    match api_key:
        case ApiKey.PRODUCE:
            from ottla.server.apis.produce import api
        case ApiKey.INIT_PRODUCER_ID:
            from ottla.server.apis.producer_ids import api
        case ApiKey.FETCH:
            from ottla.server.apis.fetch import api
        case ApiKey.LIST_OFFSETS | ApiKey.DELETE_RECORDS | ApiKey.OFFSET_FOR_LEADER_EPOCH:
            from ottla.server.apis.offsets import api
        case ApiKey.WRITE_TXN_MARKERS:
            from ottla.server.apis.transaction_markers import api
        case ApiKey.DESCRIBE_PRODUCERS:
            from ottla.server.apis.active_producers import api
        case ApiKey.DESCRIBE_LOG_DIRS:
            from ottla.server.apis.log_dirs import api
        case _:
            return None
    return api


def _groups(api_key: int) -> ApiFamily | None:
    match api_key:
        case ApiKey.FIND_COORDINATOR:
            from ottla.server.apis.coordinator import api
        case ApiKey.JOIN_GROUP | ApiKey.SYNC_GROUP | ApiKey.HEARTBEAT | ApiKey.LEAVE_GROUP:
            from ottla.server.apis.groups import api
        case ApiKey.DESCRIBE_GROUPS | ApiKey.LIST_GROUPS | ApiKey.DELETE_GROUPS:
            from ottla.server.apis.groups import api
        case ApiKey.OFFSET_COMMIT | ApiKey.OFFSET_FETCH | ApiKey.OFFSET_DELETE:
            from ottla.server.apis.group_offsets import api
        case _:
            return None
    return api


def _transactions(api_key: int) -> ApiFamily | None:
    match api_key:
        case ApiKey.ADD_PARTITIONS_TO_TXN | ApiKey.ADD_OFFSETS_TO_TXN | ApiKey.END_TXN:
            from ottla.server.apis.transactions import api
        case ApiKey.DESCRIBE_TRANSACTIONS | ApiKey.LIST_TRANSACTIONS:
            from ottla.server.apis.transactions import api
        case ApiKey.TXN_OFFSET_COMMIT:
            from ottla.server.apis.transactional_offsets import api
        case _:
            return None
    return api


def _metadata(api_key: int) -> ApiFamily | None:
    match api_key:
        case ApiKey.API_VERSIONS:
            from ottla.server.apis.api_versions import api
        case ApiKey.SASL_HANDSHAKE | ApiKey.SASL_AUTHENTICATE:
            from ottla.server.apis.sasl import api
        case ApiKey.METADATA | ApiKey.DESCRIBE_CLUSTER | ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            from ottla.server.apis.cluster import api
        case ApiKey.DESCRIBE_CONFIGS | ApiKey.LIST_CONFIG_RESOURCES | ApiKey.LIST_PARTITION_REASSIGNMENTS:
            from ottla.server.apis.cluster import api
        case ApiKey.CREATE_TOPICS | ApiKey.DELETE_TOPICS | ApiKey.CREATE_PARTITIONS:
            from ottla.server.apis.topics import api
        case ApiKey.ALTER_CONFIGS | ApiKey.ELECT_LEADERS:
            from ottla.server.apis.topics import api
        case ApiKey.INCREMENTAL_ALTER_CONFIGS:
            from ottla.server.apis.altered_settings import api
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS | ApiKey.UPDATE_FEATURES | ApiKey.UNREGISTER_BROKER:
            from ottla.server.apis.topics import api
        case ApiKey.DESCRIBE_ACLS | ApiKey.CREATE_ACLS | ApiKey.DELETE_ACLS:
            from ottla.server.apis.acls import api
        case ApiKey.DESCRIBE_CLIENT_QUOTAS | ApiKey.ALTER_CLIENT_QUOTAS:
            from ottla.server.apis.client_quotas import api
        case ApiKey.GET_TELEMETRY_SUBSCRIPTIONS | ApiKey.PUSH_TELEMETRY:
            from ottla.server.apis.client_telemetry import api
        case ApiKey.VOTE | ApiKey.BEGIN_QUORUM_EPOCH | ApiKey.END_QUORUM_EPOCH | ApiKey.FETCH_SNAPSHOT:
            from ottla.server.apis.quorum import api
        case ApiKey.ENVELOPE | ApiKey.DESCRIBE_QUORUM | ApiKey.ADD_RAFT_VOTER | ApiKey.REMOVE_RAFT_VOTER:
            from ottla.server.apis.quorum import api
        case ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS | ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            from ottla.server.apis.user_scram_credentials import api
        case ApiKey.CREATE_DELEGATION_TOKEN | ApiKey.DESCRIBE_DELEGATION_TOKEN:
            from ottla.server.apis.delegation_tokens import api
        case ApiKey.RENEW_DELEGATION_TOKEN | ApiKey.EXPIRE_DELEGATION_TOKEN:
            from ottla.server.apis.delegation_tokens import api
        case ApiKey.BROKER_REGISTRATION | ApiKey.BROKER_HEARTBEAT:
            from ottla.server.apis.brokers import api
        case ApiKey.ALTER_PARTITION | ApiKey.ALLOCATE_PRODUCER_IDS | ApiKey.ASSIGN_REPLICAS_TO_DIRS:
            from ottla.server.apis.brokers import api
        case ApiKey.ALTER_REMOTE_LOG:
            from ottla.server.apis.brokers import api
        case ApiKey.DESCRIBE_REMOTE_LOG | ApiKey.LIST_REMOTE_SEGMENTS:
            from ottla.server.apis.remote_logs import api
        case _:
            return None
    return api
