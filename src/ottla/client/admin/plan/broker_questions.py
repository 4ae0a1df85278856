"""The cluster, its quorum and its disks; the settings of topics and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from ottla.client.cluster.machine.retries import Attempt, Inquiry
from ottla.client.cluster.machine.single_brokers import by_node, by_resource, one_answer
from ottla.client.requests import features, quorum
from ottla.client.requests.brokers import (
    ClusterDescription,
    LogDir,
    described_cluster,
    described_log_dirs,
    unregistered_broker,
)
from ottla.client.requests.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    alter_configs_request,
    altered_configs,
    describe_configs_request,
    described_configs,
    list_config_resources_request,
    listed_config_resources,
)
from ottla.protocol.messages.brokers import UnregisterBrokerRequest
from ottla.protocol.messages.cluster import DescribeClusterRequest, DescribeLogDirsRequest


def describe_cluster(*, include_fenced: bool) -> Inquiry[str, None, ClusterDescription]:
    request = DescribeClusterRequest(include_fenced_brokers=include_fenced)
    return one_answer(lambda _: request, described_cluster)


def describe_log_dirs(node_ids: Iterable[int]) -> Inquiry[int, None, tuple[LogDir, ...]]:
    attempt = by_node(DescribeLogDirsRequest(topics=None), described_log_dirs)
    return Inquiry(dict.fromkeys(node_ids), attempt)


def unregister_broker(node_id: int) -> Inquiry[str, None, None]:
    request = UnregisterBrokerRequest(broker_id=node_id)
    return one_answer(lambda _: request, unregistered_broker)


def describe_quorum() -> Inquiry[str, None, quorum.QuorumDescription]:
    request = quorum.describe_quorum_request()
    return one_answer(lambda _: request, quorum.described_quorum)


def add_voter(voter: quorum.VoterKey, place: quorum.QuorumAddress) -> Inquiry[str, None, None]:
    return one_answer(partial(quorum.add_voter_request, voter, place), quorum.changed_voters)


def remove_voter(voter: quorum.VoterKey) -> Inquiry[str, None, None]:
    return one_answer(lambda _: quorum.remove_voter_request(voter), quorum.changed_voters)


def describe_features() -> Inquiry[str, None, dict[str, features.Feature]]:
    return one_answer(lambda _: features.describe_features_request(), features.described_features)


def update_feature(name: str, level: int, *, downgrades: bool) -> Inquiry[str, None, None]:
    request = features.update_feature_request(name, level, downgrades=downgrades)
    return one_answer(lambda _: request, features.updated_features)


def describe_configs(
    resources: Iterable[ConfigResource], names: Sequence[str]
) -> Inquiry[ConfigResource, None, dict[str, ConfigEntry]]:
    attempt: Attempt[ConfigResource, None, dict[str, ConfigEntry]] = by_resource(
        lambda part: describe_configs_request(part, names), described_configs
    )
    return Inquiry(dict.fromkeys(resources), attempt)


def list_config_resources(kind: ResourceType) -> Inquiry[str, None, list[ConfigResource]]:
    request = list_config_resources_request(kind)
    return one_answer(lambda _: request, partial(listed_config_resources, kind))


def alter_configs(
    changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool
) -> Inquiry[ConfigResource, Iterable[ConfigChange], None]:
    attempt: Attempt[ConfigResource, Iterable[ConfigChange], None] = by_resource(
        lambda part: alter_configs_request(part, validate_only), altered_configs
    )
    return Inquiry(changes, attempt)
