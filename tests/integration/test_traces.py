"""Traces through records: the producer's spans and headers, spans of processing, and `ottla trace`.

Requirements: OPS-3.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import SpanContext
from tests.integration.awaiting import awaited, until
from tests.integration.command_line import ottla_here
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, create_topic, now_ms, produce

import ottla
from ottla.errors import ErrorCode
from ottla.records.builder import build_batch
from ottla.records.record import Record

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    data = tmp_path_factory.mktemp("served") / "data"
    with broker_thread(data, {"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The spans of a tracer that is configured for one test."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(otel, "get_tracer", provider.get_tracer)
    return exporter


@pytest.fixture
def story(served: BrokerThread) -> Callable[..., dict[str, Any]]:
    def told(place: str) -> dict[str, Any]:
        done = ottla_here("trace", place, "--json", bootstrap=f"127.0.0.1:{served.port}")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return told


def span_id(context: SpanContext | None) -> int:
    assert context is not None
    return int(context.span_id)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_record_carries_the_context_of_the_span_that_sent_it(
    served: BrokerThread, topic: str, spans: InMemorySpanExporter, story: Callable[..., dict[str, Any]]
) -> None:
    async def send() -> ottla.DeliveryReport:
        async with ottla.Producer(f"127.0.0.1:{served.port}", tracing=True, client_id="shop") as producer:
            producer.send_soon(topic, b"first", headers=[("a", b"b")])
            parent = [("traceparent", f"00-{TRACE}-{SPAN}-01".encode())]
            return await producer.send(topic, b"second", headers=parent)

    report = asyncio.run(send())
    first, second = spans.get_finished_spans()
    assert (first.name, first.kind) == (f"send {topic}", otel.SpanKind.PRODUCER)
    assert attributes(second)["messaging.kafka.offset"] == report.offset
    assert attributes(second)["messaging.client.id"] == "shop"
    told = story(f"{topic}-0@{report.offset}")
    assert told["trace_id"] == TRACE, "the trace of the given header goes on"
    assert told["span_id"] == otel.format_span_id(span_id(second.get_span_context()))
    assert told["is_sampled"]
    assert second.parent is not None
    assert otel.format_span_id(second.parent.span_id) == SPAN


def test_processing_is_linked_to_the_trace_of_the_record_and_continues_in_what_it_produces(
    served: BrokerThread, topic: str, spans: InMemorySpanExporter
) -> None:
    bootstrap = f"127.0.0.1:{served.port}"

    async def run() -> None:
        async with ottla.Producer(bootstrap, tracing=True) as producer:
            await producer.send(topic, b"good")
            await producer.send(topic, b"bad")
        finished = asyncio.Event()

        async def handle(record: ottla.ConsumerRecord) -> ottla.ProducerRecord:
            if record.value == b"bad":
                raise ValueError("spoilt")
            return ottla.ProducerRecord(f"{topic}-out", record.value)

        async def put_aside(record: ottla.ConsumerRecord, error: Exception) -> None:
            finished.set()

        group = f"g-{topic}"
        # The end comes in the middle of a transaction, whose records have failed then.
        with contextlib.suppress(ottla.DeliveryError):
            await process(group, handle, put_aside, finished)

    async def process(group: str, handle: Any, put_aside: Any, finished: asyncio.Event) -> None:
        async with (
            ottla.Consumer(
                bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                enable_auto_commit=False,
            ) as consumer,
            ottla.Producer(bootstrap, transactional_id=group, tracing=True) as producer,
        ):
            consumer.subscribe([topic])
            handlers = ottla.traced(handle), ottla.traced(put_aside)
            task = asyncio.create_task(
                ottla.exactly_once(consumer, producer, handlers[0], on_error=handlers[1])
            )
            await finished.wait()
            await until(lambda: any(s.name == f"send {topic}-out" for s in spans.get_finished_spans()))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    awaited(run)
    done = spans.get_finished_spans()
    sent = [each for each in done if each.name == f"send {topic}"]
    processed = [each for each in done if each.name == f"process {topic}"]
    letters = [each for each in done if each.name == f"dead_letter {topic}"]
    passed_on = [each for each in done if each.name == f"send {topic}-out"]
    assert {link.context.span_id for each in processed for link in each.links} == {
        span_id(each.get_span_context()) for each in sent
    }
    assert any(not each.status.is_ok for each in processed), "the record that failed"
    assert letters[0].links[0].context.span_id == span_id(sent[1].get_span_context())
    parents = {each.parent.span_id for each in passed_on if each.parent is not None}
    assert parents <= {span_id(each.get_span_context()) for each in processed}
    assert parents


def test_a_trace_that_is_not_sampled_is_handed_on_without_spans(
    served: BrokerThread, topic: str, monkeypatch: pytest.MonkeyPatch, story: Callable[..., dict[str, Any]]
) -> None:
    monkeypatch.setattr(otel, "get_tracer", TracerProvider(sampler=ParentBased(ALWAYS_OFF)).get_tracer)

    async def send() -> None:
        async with ottla.Producer(f"127.0.0.1:{served.port}", tracing=True) as producer:
            await producer.send(topic, b"v")

    asyncio.run(send())
    told = story(f"{topic}-0@0")
    assert told["trace_id"] is not None
    assert not told["is_sampled"]


def test_without_a_configured_tracer_nothing_is_written(
    served: BrokerThread, topic: str, story: Callable[..., dict[str, Any]]
) -> None:
    async def send() -> None:
        async with ottla.Producer(f"127.0.0.1:{served.port}", tracing=True) as producer:
            await producer.send(topic, b"v")

    asyncio.run(send())
    assert story(f"{topic}-0@0")["trace_id"] is None


def test_an_error_is_told_by_the_span_and_still_raised(
    served: BrokerThread, topic: str, spans: InMemorySpanExporter
) -> None:
    async def send() -> None:
        async with ottla.Producer(f"127.0.0.1:{served.port}", tracing=True) as producer:
            await producer.send(topic, b"v")
            producer.send_soon(topic, b"x" * 3_000_000)

    with pytest.raises(ottla.DeliveryError):
        asyncio.run(send())
    assert attributes(spans.get_finished_spans()[-1])["error.type"] == ErrorCode.MESSAGE_TOO_LARGE.name


def test_the_life_of_a_transactional_record_is_told(
    served: BrokerThread, topic: str, story: Callable[..., dict[str, Any]]
) -> None:
    bootstrap = f"127.0.0.1:{served.port}"
    opened: list[dict[str, Any]] = []

    async def write() -> None:
        async with ottla.Producer(bootstrap, transactional_id=f"tx-{topic}") as producer:
            async with producer.transaction():
                await producer.send(topic, b"kept")
                await producer.send(topic, b"kept, too", key=b"k")
                opened.append(await asyncio.to_thread(story, f"{topic}-0@0"))
            try:
                async with producer.transaction():
                    await producer.send(topic, b"given up")
                    raise RuntimeError("never mind")
            except RuntimeError:
                pass
        async with ottla.Consumer(bootstrap, group_id=f"g-{topic}", auto_offset_reset="earliest") as consumer:
            consumer.subscribe([topic])
            await consumer.poll(max_records=1)
            await consumer.commit()

    asyncio.run(write())
    assert opened[0]["transaction"]["state"] == "open"
    assert (opened[0]["is_replicated"], opened[0]["is_stable"]) == (True, False)
    second = story(f"{topic}-0@1")
    assert second["transaction"] == {
        "transactional_id": f"tx-{topic}",
        "state": "committed",
        "ended_at_offset": 2,
        "ended_ms": second["transaction"]["ended_ms"],
    }
    assert second["sequence"] == 1
    assert second["replicas"] == [{"broker": 1, "in_sync": True, "has_record": True}]
    assert second["groups"] == [{"group_id": f"g-{topic}", "committed": 1, "passed": False}]
    assert story(f"{topic}-0@0")["groups"][0]["passed"]
    assert story(f"{topic}-0@3")["transaction"]["state"] == "aborted"
    shown = ottla_here("trace", f"{topic}-0@3", bootstrap=bootstrap).stdout
    assert "read_committed skips it" in shown
    assert "by age in 6 d 23 h at the earliest" in shown


@pytest.fixture
def records(peer: Peer, topic: str) -> str:
    """A topic of three records without a producer id, of which the first is deleted; its traceparent is foreign."""
    create_topic(peer, topic)
    headers = (("traceparent", f"00-{TRACE}-{SPAN}-00".encode()),)
    for number in range(3):
        records = [Record(0, now_ms(), None, b"%d" % number, headers)]
        produce(peer, topic, build_batch(records))
    return topic


@pytest.mark.parametrize(
    ("place", "code", "sentence"),
    [
        ("@0", 1, "begins at offset 1: the record at 0 was deleted"),
        ("@3", 1, "ends at offset 3: there is no record at 3 yet"),
        ("@99", 1, "ends at offset 3"),
        ("@x", 2, "is not a place in a log: write it as orders-0@17"),
        ("", 2, "is not a place in a log"),
    ],
)
def test_a_place_without_a_record_is_explained(
    served: BrokerThread, records: str, place: str, code: int, sentence: str
) -> None:
    bootstrap = f"127.0.0.1:{served.port}"

    async def delete() -> None:
        async with ottla.Admin(bootstrap) as admin:
            await admin.delete_records({ottla.TopicPartition(records, 0): 1})

    asyncio.run(delete())
    done = ottla_here("trace", f"{records}-0{place}", bootstrap=bootstrap)
    assert done.returncode == code
    assert sentence in done.stderr
    unknown = ottla_here("trace", f"{records}-7@1", bootstrap=bootstrap)
    assert unknown.returncode == 1
    told = ottla_here("trace", f"{records}-0@1", bootstrap=bootstrap).stdout
    assert "without an id: a retry may have written the record twice" in told
    assert f"{TRACE}, span {SPAN}, not sampled" in told


def test_the_program_of_the_page_runs(served: BrokerThread, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "tracing.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    bootstrap = f"'127.0.0.1:{served.port}'"
    program = program.replace("Producer(", f"Producer({bootstrap}, ").replace(
        "Consumer(", f"Consumer({bootstrap}, "
    )
    exec(compile(program, "docs/tracing.md", "exec"), {"__name__": "page"})
    assert "one coffee" in capsys.readouterr().out
    told = ottla_here("trace", "orders-0@0", bootstrap=f"127.0.0.1:{served.port}").stdout
    (shown,) = re.findall(r"```text\n\$ ottla trace .*?\n(.*?)```", page, re.DOTALL)
    heads = {line.split()[0] for line in shown.splitlines()}
    assert {line.split()[0] for line in told.splitlines()} <= heads
