from __future__ import annotations

from typing import Any

import pytest

from ottla.client.consumer.consumer import Consumer


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (
            {"auto_offset_reset": "first"},
            "auto_offset_reset cannot be 'first': choose from earliest, latest, none",
        ),
        ({"isolation_level": "serializable"}, "isolation_level cannot be 'serializable'"),
        ({"partition_assignment_strategy": []}, "must name one assignor at least"),
        ({"partition_assignment_strategy": "range"}, r"must be a list .*: write \['range'\]"),
        (
            {"partition_assignment_strategy": ["fair"]},
            "choose from range, roundrobin, sticky, cooperative-sticky",
        ),
        ({"group_id": ""}, "group_id must not be empty"),
        ({"group_instance_id": "a"}, "group_instance_id needs a group_id"),
        ({"max_poll_records": 0}, "max_poll_records must be at least 1, not 0"),
        ({"request_timeout_ms": -5}, "request_timeout_ms must be at least 1, not -5"),
        (
            {"heartbeat_interval_ms": 45_000},
            r"heartbeat_interval_ms \(45000\) must be less than session_timeout_ms",
        ),
        ({"bootstrap_servers": "a:b:c"}, "is not an address"),
    ],
)
def test_a_setting_that_cannot_be_is_told_in_a_sentence(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        Consumer(**wrong)
