"""Traces of OpenTelemetry through records: a span for each record that is sent, one for each that is processed.

    Producer(..., tracing=True)                  a span `send <topic>` until the record is delivered
    await at_least_once(consumer, traced(handle))     a span `process <topic>`, linked to the record's own trace

The producer writes the W3C headers `traceparent` and `tracestate` into the record, whatever the global propagator
says besides. A record that is processed is joined to its trace by a link, not as a child: a batch mixes the records
of many traces, and a record may be read for years (the conventions of OpenTelemetry for messaging).

Rules
- It is opt-in, and needs the package opentelemetry-api. Without it, and without an SDK that is configured, spans
  are OpenTelemetry's own empty ones: nothing is written into records.
- Whether a trace is sampled was decided when it began; a trace that is not is handed on, and has no spans here.
- Names and attributes are those of the conventions (version 1.27 and later; they are not stable yet).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.delivery_report import DeliveryReport, ProducerRecord
from ottla.client.producer.serializers import Headers, checked_headers
from ottla.errors import KafkaError
from ottla.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.trace import Span, Tracer

F = TypeVar("F", bound=Callable[..., Any])

_SYSTEM: Final = {"messaging.system": "kafka"}
_MISSING: Final = "tracing needs the package opentelemetry-api: pip install 'ottla[otel]'"


class SendSpans:
    """The spans of one producer."""

    def __init__(self, client_id: str) -> None:
        self._tracer = _tracer()
        self._attributes = {
            **_SYSTEM,
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.client.id": client_id,
        }

    def take(
        self,
        take: Callable[..., tuple[ProducerBatch, int]],
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        headers: Headers,
        timestamp_ms: int | None,
    ) -> tuple[ProducerBatch, int]:
        """Have a record taken, with the context of a new span in its headers. The span ends with its delivery."""
        from opentelemetry.trace import SpanKind, set_span_in_context

        given = checked_headers(headers) if headers else ()
        attributes = {**self._attributes, "messaging.destination.name": str(topic)}
        span = self._tracer.start_span(
            f"send {topic}", context=_context_in(given), kind=SpanKind.PRODUCER, attributes=attributes
        )
        try:
            with_trace = _with_context(given, set_span_in_context(span))
            batch, index = take(topic, value, key, partition, with_trace, timestamp_ms)
        except BaseException as error:
            _fail(span, error)
            span.end()
            raise
        if span.is_recording():
            batch.watch(index, partial(_delivered, span))
        return batch, index


def traced(function: F) -> F:
    """A handler, for `at_least_once` and its sisters, whose calls are spans linked to the record's own trace.

    As `on_error` it makes spans of records that are put aside. Records that it returns, for `exactly_once`, continue
    the trace of the span.
    """
    tracer = _tracer()
    if not callable(function):
        raise TypeError(f"traced needs a function of a record, not {function!r}")
    is_async = iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)

    @wraps(function)
    async def process_async(record: Any, *others: Any) -> Any:
        with _process_span(tracer, record, others) as span:
            return _continued(await function(record, *others), span)

    @wraps(function)
    def process(record: Any, *others: Any) -> Any:
        with _process_span(tracer, record, others) as span:
            return _continued(function(record, *others), span)

    made: Any = process_async if is_async else process
    return made  # type: ignore[no-any-return]


@contextmanager
def _process_span(tracer: Tracer, record: Any, others: tuple[Any, ...]) -> Iterator[Span]:
    from opentelemetry.trace import Link, SpanKind, get_current_span

    written = get_current_span(_context_in(record.headers)).get_span_context()
    name = "dead_letter" if others else "process"
    attributes = {
        **_SYSTEM,
        "messaging.operation.name": name,
        "messaging.operation.type": "process",
        "messaging.destination.name": record.topic,
        "messaging.destination.partition.id": str(record.partition),
        "messaging.kafka.offset": record.offset,
    }
    links = [Link(written)] if written.is_valid else []
    with tracer.start_as_current_span(
        f"{name} {record.topic}", kind=SpanKind.CONSUMER, attributes=attributes, links=links
    ) as span:
        yield span


def _continued(produced: Any, span: Span) -> Any:
    """What a handler returned: records among it have the span's context, unless they have one of their own."""
    from opentelemetry.trace import set_span_in_context

    context = set_span_in_context(span)
    if isinstance(produced, ProducerRecord):
        return replace(produced, headers=_with_context(produced.headers, context))
    if isinstance(produced, list | tuple) and all(isinstance(each, ProducerRecord) for each in produced):
        return [replace(each, headers=_with_context(each.headers, context)) for each in produced]
    return produced


def _tracer() -> Tracer:
    try:
        from opentelemetry.trace import get_tracer
    except ImportError as error:
        raise ValueError(_MISSING) from error
    return get_tracer("ottla", __version__)


def _context_in(headers: Iterable[tuple[str, bytes | None]]) -> Any:
    """The context of a record's headers, over the one of the running code."""
    from opentelemetry.propagate import extract

    return extract({name: (value or b"").decode("utf-8", "replace") for name, value in headers})


def _with_context(
    headers: Iterable[tuple[str, bytes | None]], context: Any
) -> tuple[tuple[str, bytes | None], ...]:
    from opentelemetry.propagate import inject

    carrier: dict[str, str] = {}
    inject(carrier, context=context)
    kept = tuple(pair for pair in headers if pair[0] not in carrier)
    return (*kept, *((name, text.encode()) for name, text in carrier.items()))


def _delivered(span: Span, outcome: DeliveryReport | KafkaError) -> None:
    if isinstance(outcome, DeliveryReport):
        span.set_attribute("messaging.destination.partition.id", str(outcome.partition))
        span.set_attribute("messaging.kafka.offset", outcome.offset)
    else:
        _fail(span, outcome)
    span.end()


def _fail(span: Span, error: BaseException) -> None:
    from opentelemetry.trace import Status, StatusCode

    code = error.code.name if isinstance(error, KafkaError) else type(error).__name__
    span.set_attribute("error.type", code)
    span.set_status(Status(StatusCode.ERROR, str(error)))
