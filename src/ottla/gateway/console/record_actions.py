"""Changes by records: send one; send dead letters back to where they came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.client.producer.machine.delivery_report import DeliveryError
from ottla.gateway.console.actions import Plan, Planner, counted
from ottla.gateway.console.door import Visit
from ottla.gateway.console.machine.dead_letters import headers_before, origin_of
from ottla.gateway.console.machine.questions import Body
from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.gateway.records.machine.described import header_pairs, part_bytes
from ottla.gateway.records.machine.produced import RecordToSend
from ottla.gateway.records.producing import produce
from ottla.model import TopicPartition

MOST_REDRIVEN: Final = 500


def planners() -> Mapping[str, Planner]:
    """The actions of this module by name."""
    return {"send-record": _send, "redrive": _redrive}


async def _send(visit: Visit, body: Body) -> Plan:
    topic = body.text("topic")
    count = await visit.caller.topics.partition_count(topic)
    record = _record_in(body)
    if record.partition is not None and record.partition >= count:
        raise unprocessable(f"{topic!r} has the partitions 0 to {count - 1}")

    async def carry_out() -> str:
        [outcome] = await produce(visit.caller, topic, [record])
        if isinstance(outcome, DeliveryError):
            raise outcome
        return f"Written to {topic}, partition {outcome.partition}, at offset {outcome.offset}."

    size = len(record.key or b"") + len(record.value or b"")
    where = "" if record.partition is None else f", partition {record.partition}"
    what = f"Sends one record of {counted(size, 'byte')} to {topic}{where}."
    if record.value is None:
        what += " Without a value, it deletes its key in a compacted topic."
    return Plan(what, visit.commands.piped(_line(body), "produce", topic, json=True), carry_out)


def _record_in(body: Body) -> RecordToSend:
    try:
        return RecordToSend(
            part_bytes("value", body.get("value"), body.get("value_encoding")),
            part_bytes("key", body.get("key"), body.get("key_encoding")),
            body.optional_number("partition", 0, 2**31 - 1),
            tuple(header_pairs(body.get("headers"))),
        )
    except ValueError as error:
        raise unprocessable(str(error)) from error


def _line(body: Body) -> str:
    """The record as `ottla produce --json` takes it."""
    line: dict[str, Any] = {}
    for part in ("key", "value"):
        value, encoding = body.get(part), body.get(f"{part}_encoding")
        is_text = encoding == "text" or (part == "key" and isinstance(value, str) and encoding is None)
        if value is None or is_text:
            line[part] = value
        elif encoding == "base64":
            line[part] = {"base64": value}
        else:
            line[part] = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if body.get("headers"):
        line["headers"] = body.get("headers")
    if body.get("partition") is not None:
        line["partition"] = body.get("partition")
    return json.dumps(line, ensure_ascii=False)


# ---- dead letters


async def _redrive(visit: Visit, body: Body) -> Plan:
    """Send dead letters, perhaps with another key or value, to the topics that they came from."""
    letters = [
        await _letter(visit, body.text("topic"), each) for each in body.items("records", MOST_REDRIVEN)
    ]
    by_topic: dict[str, list[RecordToSend]] = {}
    for topic, record, _ in letters:
        by_topic.setdefault(topic, []).append(record)
    for topic in by_topic:
        await visit.caller.topics.partition_count(topic)

    async def carry_out() -> str:
        sent = 0
        for topic, records in by_topic.items():
            outcomes = await produce(visit.caller, topic, records)
            failed = [each for each in outcomes if isinstance(each, DeliveryError)]
            sent += len(outcomes) - len(failed)
            if failed:
                raise HttpError(
                    500,
                    f"{counted(sent, 'record')} sent, {counted(len(failed), 'record')} of {topic} not: {failed[0]}",
                )
        return f"{counted(sent, 'record')} sent to {', '.join(sorted(by_topic))}."

    what = (
        f"Sends {counted(len(letters), 'dead letter')} to {', '.join(sorted(by_topic))}, without the headers that say"
        f" why they failed. They stay in {body.text('topic')} as well."
    )
    line = visit.commands.line(
        "consume",
        body.text("topic"),
        partition=letters[0][2].partition,
        from_=letters[0][2].offset,
        count=1,
        json=True,
    )
    first = letters[0][0]
    command = f"{line} | {visit.commands.line('produce', first, json=True)}"
    rows = [
        {"from": f"{each.partition}@{each.offset}", "to": topic, "reason": _reason(each)}
        for topic, _, each in letters[:20]
    ]
    return Plan(what, command, carry_out, rows=rows)


async def _letter(visit: Visit, topic: str, body: Body) -> tuple[str, RecordToSend, ConsumerRecord]:
    """Where a dead letter goes, what is sent, and what it was. Raises HttpError(404 or 422)."""
    place, offset = TopicPartition(topic, body.number("partition", 0, 2**31 - 1)), body.number("offset")
    await visit.caller.topics.check_partition(*place)
    found = (await visit.admin.peek({place: offset}))[place]
    if not isinstance(found, ConsumerRecord) or found.offset != offset:
        raise HttpError(404, f"{place} has no record at offset {offset} any more")
    origin = origin_of(found.headers)
    target = body.get("to") or (None if origin is None else origin.topic)
    if not isinstance(target, str):
        raise unprocessable(f"the record at offset {offset} does not say where it came from: name a topic")
    try:
        value = found.value if body.get("value") is None else part_bytes(
            "value", body.get("value"), body.get("value_encoding")
        )  # fmt: skip
    except ValueError as error:
        raise unprocessable(str(error)) from error
    return target, RecordToSend(value, found.key, None, headers_before(found.headers)), found


def _reason(record: ConsumerRecord) -> str:
    origin = origin_of(record.headers)
    return "" if origin is None or origin.reason is None else origin.reason[:200]
