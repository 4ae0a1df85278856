"""Metrics of this node as a process that answers requests."""

import sys
from collections.abc import Callable, Iterator

from ottla.errors import ErrorCode
from ottla.server.gate.request_counts import ApiCounts
from ottla.server.monitoring.loop_delay import LoopDelay
from ottla.server.monitoring.subject import Subject
from ottla.telemetry.families import (
    Exemplar,
    Family,
    Kind,
    Labels,
    Sample,
    counter,
    counters,
    gauge,
    gauges,
    histograms,
)
from ottla.telemetry.histogram import Histogram
from ottla.version import __version__

_MICROSECONDS = 1_000_000


def process_families(subject: Subject, delay: LoopDelay, refused_http: int) -> Iterator[Family]:
    """Memory, CPU, files, the event loop, and the HTTP port itself."""
    process = subject.runtime.process
    labels = (("version", __version__), ("python", sys.version.split()[0]), ("node_id", str(subject.node_id)))
    yield Family("ottla_build", Kind.INFO, "The version of this node.", (Sample(labels, 1, "_info"),))
    yield counter("process_cpu_seconds", "CPU time used.", process.cpu_s(), unit="seconds")
    yield gauge("process_resident_memory_bytes", "Memory in use.", process.resident_bytes(), unit="bytes")
    yield gauge("process_open_fds", "Descriptors in use.", process.open_files())
    yield gauge("process_max_fds", "Descriptors that may be used.", process.max_files())
    started_s = process.started_s()
    yield gauge("process_start_time_seconds", "When the process started.", started_s, unit="seconds")
    yield histograms(
        "ottla_event_loop_delay_seconds",
        "How late the event loop is with what is due, looked at ten times a second.",
        [((), delay.histogram, None)],
    )
    yield counter("ottla_http_refused", "HTTP connections answered with 503: all were in use.", refused_http)


def connection_families(subject: Subject) -> Iterator[Family]:
    """Connections, logins, rights and quotas."""
    listeners, services = subject.listeners.all, subject.services
    named = [((("listener", each.name),), each) for each in listeners]
    yield gauges(
        "ottla_connections", "Open connections.", [(labels, each.connection_count) for labels, each in named]
    )
    yield counters(
        "ottla_connections_accepted",
        "Connections that came in.",
        [(labels, each.accepted) for labels, each in named],
    )
    yield counters(
        "ottla_connections_refused",
        "Connections closed at once: too many are open, or too many have not logged in.",
        [(labels, each.refused) for labels, each in named],
    )
    yield counters(
        "ottla_received_bytes",
        "Bytes received.",
        [(labels, each.traffic.received_bytes) for labels, each in named],
        unit="bytes",
    )
    yield counters(
        "ottla_sent_bytes",
        "Bytes sent.",
        [(labels, each.traffic.sent_bytes) for labels, each in named],
        unit="bytes",
    )
    yield counter("ottla_logins_failed", "Logins that were refused.", subject.listeners.failed_logins)
    rights = services.rights
    yield counter(
        "ottla_rights_denied",
        "Questions for a right that were answered with no.",
        0 if rights is None else rights.denied,
    )
    yield counter(
        "ottla_quota_throttles", "How often clients were held back by quotas.", services.quotas.throttles
    )
    yield counter(
        "ottla_quota_throttle_seconds",
        "For how long clients were held back by quotas.",
        services.quotas.throttled_ms / 1000,
        unit="seconds",
    )


def client_families(subject: Subject) -> Iterator[Family]:
    """Metrics that clients push. Who they are is on /debug/clients: clients choose their names."""
    clients = subject.services.client_metrics
    yield gauge(
        "ottla_pushing_clients", "Clients that push metrics, or asked whether they should.", len(clients)
    )
    yield gauge("ottla_pushed_numbers", "Numbers that clients pushed last, in memory.", clients.point_count)
    yield counter("ottla_client_pushes", "Pushes of metrics by clients that were taken.", clients.pushes)
    yield counter(
        "ottla_client_pushes_refused",
        "Pushes that came too early, were too large, or were for another subscription.",
        clients.refused,
    )
    yield counter(
        "ottla_client_pushes_unreadable",
        "Pushes that were taken and could not be read.",
        clients.unreadable,
    )


def request_families(subject: Subject, to_wall_s: Callable[[float], float]) -> Iterator[Family]:
    """Requests by API. `to_wall_s` turns the loop's time into the time of day."""
    apis = subject.services.requests.all
    yield histograms(
        "ottla_request_duration_seconds",
        "From the read of a request to its answer; requests of one read that are answered together count with the "
        "time of all.",
        (_duration(each, to_wall_s) for each in apis),
    )
    for part, about in (
        ("queue", "Time between the read of a request and its handler."),
        ("handling", "Time in handlers: what requests take of the event loop."),
        ("waiting", "Time in which requests wait for followers, a flush, records or other members."),
    ):
        yield counters(
            f"ottla_request_{part}_seconds",
            about,
            [(_label(each), getattr(each, f"{part}_s")) for each in apis],
            unit="seconds",
        )
    yield counters(
        "ottla_request_errors",
        "Error codes in answers; of an answer about many partitions the first hundred are looked at.",
        error_rows(apis),
    )


def error_rows(apis: list[ApiCounts]) -> Iterator[tuple[Labels, int]]:
    """Errors by API and code, by their names."""
    for each in apis:
        for code, count in sorted(each.errors.items()):
            yield (*_label(each), ("error", ErrorCode(code).name)), count


def _label(times: ApiCounts) -> Labels:
    return (("api", times.api),)


def _duration(
    times: ApiCounts, to_wall_s: Callable[[float], float]
) -> tuple[Labels, Histogram, Exemplar | None]:
    slowest = times.slowest.all
    exemplar = None
    if slowest:
        slow = slowest[0]
        labels = (("waiting_us", str(slow.waiting_us)), ("handling_us", str(slow.handling_us)))
        exemplar = Exemplar(labels, slow.total_us / _MICROSECONDS, to_wall_s(slow.at_s))
    return _label(times), times.histogram, exemplar
