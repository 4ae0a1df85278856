"""Keys and values for people: by the schemas of the registry where they name one, else JSON, text or bytes.

Records are decoded if there is a registry and the user may read it. What cannot be decoded is shown as it is, with
the reason.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.errors import KafkaError
from ottla.gateway.console.door import Visit
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.records.machine.described import described
from ottla.gateway.registry.schemas_topic import TOPIC
from ottla.gateway.schema_values.decoding import ValueDecoder

_SHOWN_BYTES: Final = 4_096


class Decoder:
    """Shows records."""

    def __init__(self, values: ValueDecoder) -> None:
        self._values = values

    async def may_decode(self, visit: Visit) -> bool:
        """Whether there is a registry that this user may read. Looking does not create one."""
        try:
            await visit.caller.topics.partition_count(TOPIC)
            await self._values.check(visit.login)
        except (HttpError, KafkaError):
            return False
        return True

    async def rows(self, visit: Visit, records: Sequence[ConsumerRecord]) -> list[dict[str, Any]]:
        """Records as JSON; `key_schema_id` and `value_schema_id` say by which schema a part was decoded."""
        by_schema = None
        if any(map(_may_have_schema, records)) and await self.may_decode(visit):
            await self._values.prepare(records)
            by_schema = self._values.shown
        return [
            {
                **described(each, by_schema),
                "key_size": len(each.key or b""),
                "value_size": len(each.value or b""),
            }
            for each in records
        ]


def bytes_shown(data: bytes | None) -> dict[str, Any] | None:
    """The first bytes, for a view of what is really there."""
    if data is None:
        return None
    return {"size": len(data), "base64": b64encode(data[:_SHOWN_BYTES]).decode("ascii")}


def _may_have_schema(record: ConsumerRecord) -> bool:
    named = any(name.endswith("_schema_id") for name, _ in record.headers)
    return named or (record.key or b"")[:1] == b"\0" or (record.value or b"")[:1] == b"\0"
