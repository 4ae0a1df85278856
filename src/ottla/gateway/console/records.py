"""Find, show, follow and export the records of a topic."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.client.fetching.plan.record_filters import Condition, all_of, parse_condition
from ottla.client.requests.offsets import ListedOffset
from ottla.errors import ErrorCode, KafkaError
from ottla.gateway.console.decoding import Decoder, bytes_shown
from ottla.gateway.console.door import Door, Visit
from ottla.gateway.console.machine.dead_letters import origin_of
from ottla.gateway.console.machine.search_windows import Bounds, Search, parse_cursor
from ottla.gateway.console.record_search import Findings, find
from ottla.gateway.console.topic_figures import ends_of
from ottla.gateway.console.topics import partition_in
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.message import Answer
from ottla.gateway.http.machine.parameters import Parameter
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.records.machine.start import Start, parse_start
from ottla.gateway.rest.events import EVENT_STREAM, EventRoutes
from ottla.model import TopicPartition
from ottla.schemas.json_schema.safe_patterns import is_safe

_MOST_PARTITIONS: Final = 200
_MOST_EXPORTED: Final = 100_000
_SEARCHED: Final = re.compile(r"[^=!~]+!?~(?P<pattern>.*)", re.DOTALL)
_NDJSON: Final = "application/x-ndjson"
_WHERE: Final = Parameter(
    "where",
    "Conditions such as key=42 or value.status~fail, one on each line; other text is searched for.",
    default="",
)
_PARTITION: Final = Parameter("partition", "Only this partition.", "integer", at_least=0, at_most=2**31 - 1)
_SEARCH: Final = (
    Parameter(
        "from", "newest, earliest, an offset, or a time such as 2026-11-18T08:00:00Z.", default="newest"
    ),
    _PARTITION,
    _WHERE,
    Parameter("limit", "The most records.", "integer", default=50, at_least=1, at_most=500),
    Parameter("cursor", "Where the answer before ended.", default=""),
    Parameter("by_key", "Only the newest record of each key.", "boolean", False),
)


class RecordPages:
    """What the page shows of records."""

    def __init__(self, door: Door, events: EventRoutes, decoder: Decoder) -> None:
        self._door = door
        self._events = events
        self._decoder = decoder

    def routes(self) -> tuple[Route, ...]:
        reads = self._door.reads
        tail = (replace(_SEARCH[0], default="latest", doc="latest, earliest or a time."), _PARTITION, _WHERE)
        return (
            reads("/topics/{topic}/records", self._find, "Records that a search finds.", _SEARCH),
            reads(
                "/topics/{topic}/partitions/{partition}/records/{offset}", self._show, "One record, in full."
            ),
            reads(
                "/topics/{topic}/events",
                self._follow,
                "The records of a topic as they come.",
                tail,
                (EVENT_STREAM,),
            ),
            reads(
                "/topics/{topic}/export",
                self._export,
                "Records that a search finds, as lines of JSON, as `ottla produce --json` takes them.",
                (*_SEARCH[:3], replace(_SEARCH[3], default=10_000, at_most=_MOST_EXPORTED)),
                (_NDJSON,),
            ),
        )

    async def _find(self, visit: Visit) -> Any:
        condition = conditions_in(visit.query["where"])
        if visit.query["by_key"]:
            condition = all_of([condition, _newest_of_key()])
        search = await self._search(visit, visit.query["cursor"])
        topic, limit = visit.params["topic"], visit.query["limit"]
        findings = await find(self._door.pool, visit.caller, topic, search, condition, limit)
        return {
            "records": await self._decoder.rows(visit, findings.records),
            "scanned": findings.scanned,
            "remaining": search.remaining,
            "is_cut_short": findings.is_cut_short,
            # Another request would not know the keys that this one has shown.
            "cursor": None if visit.query["by_key"] else search.cursor,
            "command": _consume_command(visit),
        }

    async def _show(self, visit: Visit) -> Any:
        place, offset = TopicPartition(visit.params["topic"], partition_in(visit)), _offset_in(visit)
        await visit.caller.topics.check_partition(*place)
        found = (await visit.admin.peek({place: offset}))[place]
        if isinstance(found, KafkaError) and found.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise found
        if isinstance(found, KafkaError) or found is None or found.offset != offset:
            after = (
                ""
                if not isinstance(found, ConsumerRecord)
                else f"; the next record has offset {found.offset}"
            )
            raise HttpError(404, f"{place} has no record at offset {offset}{after}")
        [shown] = await self._decoder.rows(visit, [found])
        origin = origin_of(found.headers)
        return {
            **shown,
            "key_bytes": bytes_shown(found.key),
            "value_bytes": bytes_shown(found.value),
            "origin": None
            if origin is None
            else {
                "reason": origin.reason,
                "topic": origin.topic,
                "partition": origin.partition,
                "offset": origin.offset,
            },
            "command": visit.commands.line(
                "consume", place.topic, partition=place.partition, from_=offset, count=1, json=True
            ),
        }

    async def _follow(self, visit: Visit) -> Answer:
        decode = "schema" if await self._decoder.may_decode(visit) else "bytes"
        query = {"from": visit.query["from"], "partition": visit.query["partition"], "decode": decode}
        return await self._events.stream(
            replace(visit.request, query=query), conditions_in(visit.query["where"])
        )

    async def _export(self, visit: Visit) -> Answer:
        condition, limit = conditions_in(visit.query["where"]), visit.query["limit"]
        search = await self._search(visit, "")
        headers = {"Content-Disposition": f'attachment; filename="{visit.params["topic"]}.jsonl"'}
        return Answer(200, self._exported(visit, search, condition, limit), _NDJSON, headers)

    async def _exported(
        self, visit: Visit, search: Search, condition: Condition, limit: int
    ) -> AsyncIterator[bytes]:
        async with self._door.pool.caller(visit.login) as caller:
            left = limit
            while left > 0 and not search.is_over:
                wanted = min(left, 500)
                found: Findings = await find(
                    self._door.pool, caller, visit.params["topic"], search, condition, wanted
                )
                left -= len(found.records)
                if found.records:
                    yield b"".join(map(_line, found.records))

    async def _search(self, visit: Visit, cursor: str) -> Search:
        """Where a search begins, and how far it may go. Raises HttpError(400, 404, 416 or 422)."""
        topic, wanted, begin = visit.params["topic"], visit.query["partition"], visit.query["from"]
        places = await self._places(visit, topic, wanted)
        ends = await ends_of(visit.admin, places)
        bounds = {place.partition: Bounds(each.start, each.end) for place, each in ends.items()}
        if not bounds and places:
            raise HttpError(503, f"no partition of {topic!r} can be read now: each is without a leader")
        try:
            begins = parse_cursor(cursor) or await self._begins(visit, places, begin)
        except ValueError as error:
            raise HttpError(400, str(error)) from error
        return Search(bounds, begins, is_backwards=begin == "newest")

    async def _places(self, visit: Visit, topic: str, wanted: int | None) -> list[TopicPartition]:
        if wanted is not None:
            await visit.caller.topics.check_partition(topic, wanted)
            return [TopicPartition(topic, wanted)]
        count = len((await visit.caller.topics.describe(topic)).partitions)
        if count > _MOST_PARTITIONS:
            raise HttpError(
                422,
                f"{topic!r} has {count} partitions, and a search may have {_MOST_PARTITIONS}: choose one of them",
            )
        return [TopicPartition(topic, number) for number in range(count)]

    async def _begins(self, visit: Visit, places: list[TopicPartition], text: str) -> dict[int, int]:
        if text == "newest":
            return {}
        start: Start = parse_start(text)
        if start.kind == "offset":
            return {place.partition: start.number for place in places}
        if start.kind != "time":
            return {place.partition: 0 if start.kind == "earliest" else 2**62 for place in places}
        listed = await visit.admin.list_offsets(dict.fromkeys(places, start.number))
        return {
            place.partition: found.offset if found.offset >= 0 else 2**62
            for place, found in listed.items()
            if isinstance(found, ListedOffset)
        }


def conditions_in(text: str) -> Condition:
    """All conditions of a text, one on each line; a line without an operator is searched for. Raises HttpError(400)."""
    return all_of([_condition(line.strip()) for line in text.splitlines() if line.strip()])


def _condition(line: str) -> Condition:
    if any(operator in line for operator in "=~"):
        try:
            parsed = parse_condition(line)
        except ValueError as error:
            raise HttpError(400, str(error)) from error
        _check_pattern(line)
        return parsed
    wanted = line.encode()
    return lambda record: (
        wanted in (record.key or b"")
        or wanted in (record.value or b"")
        or any(
            wanted in name.encode("utf-8", "replace") or wanted in (data or b"")
            for name, data in record.headers
        )
    )


def _check_pattern(line: str) -> None:
    """The gateway searches for all callers on one loop: an expression must not take long. Raises HttpError(400)."""
    found = _SEARCHED.fullmatch(line)
    if found is not None and not is_safe(found["pattern"]):
        raise HttpError(
            400,
            f"{found['pattern'][:100]!r} may take too long here: leave out groups, alternatives and repeated repetitions,"
            " or run ottla consume --filter, which takes any expression",
        )


def _newest_of_key() -> Condition:
    """The first record of each key; a search backwards meets the newest first."""
    seen: set[tuple[int, bytes | None]] = set()

    def is_first(record: ConsumerRecord) -> bool:
        place = record.partition, record.key
        if record.key is None or place in seen:
            return False
        seen.add(place)
        return True

    return is_first


def _offset_in(visit: Visit) -> int:
    text = visit.params["offset"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise HttpError(404, f"{text[:50]!r} is no offset")
    return int(text)


def _consume_command(visit: Visit) -> str:
    query, begin = visit.query, visit.query["from"]
    lines = [line.strip() for line in query["where"].splitlines() if line.strip()]
    filters = [line if any(each in line for each in "=~") else f"value~{line}" for line in lines]
    return visit.commands.line(
        "consume",
        visit.params["topic"],
        from_="earliest" if begin == "newest" else begin,
        partition=query["partition"],
        filter=filters,
        json=True,
    )


def _line(record: ConsumerRecord) -> bytes:
    document = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _exported_part(record.key),
        "value": _exported_part(record.value),
        "headers": [[name, _exported_part(data)] for name, data in record.headers],
    }
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _exported_part(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode("ascii")}
