"""Ottla: a distributed, replicated event log that speaks Kafka's protocol.

The clients are here: `ottla.Producer`, `ottla.Consumer`, `ottla.Admin`, what they answer, and what they
raise. Nothing is imported before it is used, so that `import ottla` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin as Admin
    from ottla.client.consumer.consumer import Consumer as Consumer
    from ottla.client.consumer.consumer import ConsumerRecord as ConsumerRecord
    from ottla.client.consumer.consumer import OffsetSpec as OffsetSpec
    from ottla.client.consumer.consumer import RecordBatch as RecordBatch
    from ottla.client.consumer.processing import ProcessingError as ProcessingError
    from ottla.client.consumer.processing import at_least_once as at_least_once
    from ottla.client.consumer.processing import at_most_once as at_most_once
    from ottla.client.exactly_once import exactly_once as exactly_once
    from ottla.client.producer.delivery import Delivery as Delivery
    from ottla.client.producer.machine import partitioners as partitioners
    from ottla.client.producer.machine.delivery_report import BufferFullError as BufferFullError
    from ottla.client.producer.machine.delivery_report import DeliveryError as DeliveryError
    from ottla.client.producer.machine.delivery_report import DeliveryReport as DeliveryReport
    from ottla.client.producer.machine.delivery_report import ProducerRecord as ProducerRecord
    from ottla.client.producer.machine.delivery_report import SerializationError as SerializationError
    from ottla.client.producer.machine.prepared_transaction import PreparedTransaction as PreparedTransaction
    from ottla.client.producer.machine.transaction_errors import ProducerFencedError as ProducerFencedError
    from ottla.client.producer.machine.transaction_errors import (
        TransactionAbortedError as TransactionAbortedError,
    )
    from ottla.client.producer.machine.transaction_errors import TransactionError as TransactionError
    from ottla.client.producer.machine.transaction_errors import (
        TransactionUncertainError as TransactionUncertainError,
    )
    from ottla.client.producer.producer import Producer as Producer
    from ottla.client.producer.serializers import AvroCodec as AvroCodec
    from ottla.client.producer.serializers import deserialize_json as deserialize_json
    from ottla.client.producer.serializers import deserialize_text as deserialize_text
    from ottla.client.producer.serializers import serialize_json as serialize_json
    from ottla.client.producer.serializers import serialize_text as serialize_text
    from ottla.client.producer.tracing import traced as traced
    from ottla.client.requests.configs import ConfigChange as ConfigChange
    from ottla.client.requests.configs import ConfigOperation as ConfigOperation
    from ottla.client.requests.configs import ConfigResource as ConfigResource
    from ottla.client.requests.configs import ResourceType as ResourceType
    from ottla.client.requests.delegation_tokens import DelegationToken as DelegationToken
    from ottla.client.requests.group_offsets import CommittedOffset as CommittedOffset
    from ottla.client.requests.membership import GroupMetadata as GroupMetadata
    from ottla.client.requests.outcomes import succeeded as succeeded
    from ottla.client.requests.quotas import QuotaEntity as QuotaEntity
    from ottla.client.requests.reassignments import ElectionType as ElectionType
    from ottla.client.requests.topics import NewTopic as NewTopic
    from ottla.client.requests.users import ScramPassword as ScramPassword
    from ottla.client.requests.users import ScramRemoval as ScramRemoval
    from ottla.errors import ErrorCode as ErrorCode
    from ottla.errors import KafkaError as KafkaError
    from ottla.model import TopicPartition as TopicPartition
    from ottla.security.acl.rules import Acl as Acl
    from ottla.security.acl.rules import AclFilter as AclFilter
    from ottla.security.acl.rules import Operation as Operation
    from ottla.security.acl.rules import Pattern as Pattern
    from ottla.security.acl.rules import PatternType as PatternType
    from ottla.security.acl.rules import Permission as Permission
    from ottla.security.settings import Security as Security
    from ottla.security.token_endpoint import TokenEndpoint as TokenEndpoint
    from ottla.version import __version__ as __version__
    from ottla.wire.connection import CannotConnectError as CannotConnectError
    from ottla.wire.stream import ConnectionLostError as ConnectionLostError

# Where each name lives.
_HOMES = {
    "ottla.client.admin.admin": ("Admin",),
    "ottla.client.consumer.consumer": (
        "Consumer",
        "ConsumerRecord",
        "OffsetSpec",
        "RecordBatch",
    ),
    "ottla.client.exactly_once": ("exactly_once",),
    "ottla.client.producer.tracing": ("traced",),
    "ottla.client.producer.delivery": ("Delivery",),
    "ottla.client.producer.machine.delivery_report": (
        "BufferFullError",
        "DeliveryError",
        "DeliveryReport",
        "ProducerRecord",
        "SerializationError",
    ),
    "ottla.client.producer.machine.prepared_transaction": ("PreparedTransaction",),
    "ottla.client.producer.machine.transaction_errors": (
        "ProducerFencedError",
        "TransactionAbortedError",
        "TransactionError",
        "TransactionUncertainError",
    ),
    "ottla.client.requests.configs": ("ConfigChange", "ConfigOperation", "ConfigResource", "ResourceType"),
    "ottla.client.requests.delegation_tokens": ("DelegationToken",),
    "ottla.client.requests.group_offsets": ("CommittedOffset",),
    "ottla.client.requests.membership": ("GroupMetadata",),
    "ottla.client.requests.outcomes": ("succeeded",),
    "ottla.client.requests.quotas": ("QuotaEntity",),
    "ottla.client.requests.reassignments": ("ElectionType",),
    "ottla.client.consumer.processing": ("ProcessingError", "at_least_once", "at_most_once"),
    "ottla.client.producer.producer": ("Producer",),
    "ottla.client.producer.serializers": (
        "AvroCodec",
        "deserialize_json",
        "deserialize_text",
        "serialize_json",
        "serialize_text",
    ),
    "ottla.client.requests.topics": ("NewTopic",),
    "ottla.client.requests.users": ("ScramPassword", "ScramRemoval"),
    "ottla.errors": ("ErrorCode", "KafkaError"),
    "ottla.model": ("TopicPartition",),
    "ottla.security.acl.rules": ("Acl", "AclFilter", "Operation", "Pattern", "PatternType", "Permission"),
    "ottla.security.settings": ("Security",),
    "ottla.security.token_endpoint": ("TokenEndpoint",),
    "ottla.version": ("__version__",),
    "ottla.wire.connection": ("CannotConnectError",),
    "ottla.wire.stream": ("ConnectionLostError",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Acl",
    "AclFilter",
    "Admin",
    "AvroCodec",
    "BufferFullError",
    "CannotConnectError",
    "CommittedOffset",
    "ConfigChange",
    "ConfigOperation",
    "ConfigResource",
    "ConnectionLostError",
    "Consumer",
    "ConsumerRecord",
    "DelegationToken",
    "Delivery",
    "DeliveryError",
    "DeliveryReport",
    "ElectionType",
    "ErrorCode",
    "GroupMetadata",
    "KafkaError",
    "NewTopic",
    "OffsetSpec",
    "Operation",
    "Pattern",
    "PatternType",
    "Permission",
    "PreparedTransaction",
    "ProcessingError",
    "Producer",
    "ProducerFencedError",
    "ProducerRecord",
    "QuotaEntity",
    "RecordBatch",
    "ResourceType",
    "ScramPassword",
    "ScramRemoval",
    "Security",
    "SerializationError",
    "TokenEndpoint",
    "TopicPartition",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionUncertainError",
    "__version__",
    "at_least_once",
    "at_most_once",
    "deserialize_json",
    "deserialize_text",
    "exactly_once",
    "partitioners",
    "serialize_json",
    "serialize_text",
    "succeeded",
    "traced",
]


# Hidden from type checkers, which would take any name for one that exists.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "partitioners":
            return import_module("ottla.client.producer.machine.partitioners")
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value  # the next access finds it at once
        return value


def __dir__() -> list[str]:
    return __all__
