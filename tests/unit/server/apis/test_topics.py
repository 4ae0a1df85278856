from typing import Any
from uuid import UUID

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.codec import decode, encode
from ottla.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ottla.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from ottla.server.apis.topics import refusal

FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "there is no room")
REQUESTS: dict[ApiKey, Any] = {
    ApiKey.CREATE_TOPICS: CreateTopicsRequest(topics=[CreatableTopic(name="a"), CreatableTopic(name="b")]),
    ApiKey.DELETE_TOPICS: DeleteTopicsRequest(
        topics=[DeleteTopicState(name="a"), DeleteTopicState(topic_id=UUID(int=7))], topic_names=["a", "b"]
    ),
    ApiKey.CREATE_PARTITIONS: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="a"), CreatePartitionsTopic(name="b")]
    ),
    ApiKey.ALTER_CONFIGS: AlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=2, resource_name=name) for name in "ab"]
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: IncrementalAlterConfigsRequest(
        resources=[IncrementalAlterConfigsResource(resource_type=2, resource_name=name) for name in "ab"]
    ),
}


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.name)
def test_a_command_that_could_not_be_carried_out_is_answered_in_every_version(key: ApiKey) -> None:
    api = APIS[key]
    for version in range(api.min_version, api.max_version + 1):
        # As it came over the wire: with what this version has.
        asked = decode(api.request, encode(REQUESTS[key], version), version)
        answer: Any = decode(api.response, encode(refusal(asked, FULL), version), version)
        items = next(
            found for name in ("topics", "responses", "results") if (found := getattr(answer, name, None))
        )
        assert [item.error_code for item in items] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


def test_what_has_no_such_answer_is_raised() -> None:
    with pytest.raises(KafkaError, match="no room"):
        refusal(object(), FULL)
