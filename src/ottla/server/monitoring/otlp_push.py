"""Metrics pushed to a collector of OpenTelemetry, with OTLP over HTTP (extra `ottla[otel]`).

The families of `/metrics` by our own names become OpenTelemetry's metrics a millisecond at a time, on the event loop;
a thread encodes and sends them. A collector that does not answer costs that thread a few seconds in an interval: it is
told once, and once more when the collector is back. Nothing is kept for it: the next push has the same totals.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ottla.config import ConfigError
from ottla.config.monitoring import OTLP_ENDPOINT
from ottla.runtime.turns import in_turns
from ottla.server.monitoring.loop_delay import LoopDelay
from ottla.server.monitoring.metrics import Metrics
from ottla.server.monitoring.subject import Subject
from ottla.telemetry.families import Family, Kind, Labels, Sample
from ottla.version import __version__

logger = logging.getLogger(__name__)

_PATH: Final = "/v1/metrics"
# For one push, all attempts included.
_TIMEOUT_S: Final[float] = 5.0
_EXPORTERS_LOG: Final = "opentelemetry.exporter.otlp.proto.http.metric_exporter"
# The same numbers under other names are for dashboards that scrape.
_DIALECTS: Final = ("kafka_",)


class OtlpPush:
    """Pushes the metrics of one node from `start` to `stop`."""

    def __init__(self, subject: Subject) -> None:
        settings, runtime = subject.config.monitoring, subject.runtime
        self._interval_s = settings.otlp_interval_ms / 1000
        self._endpoint = settings.otlp_endpoint
        self._exporter = _exporter(self._endpoint)
        self._delay = LoopDelay()
        self._metrics = Metrics(subject, self._delay)
        self._clock = runtime.clock
        self._threads = runtime.threads.pool(1, "ottla-otlp")
        self._subject = subject
        self._started_ns = self._now_ns()
        self._is_well = True
        self._task: asyncio.Task[None] | None = None
        self.pushes = 0
        self.failures = 0

    def start(self) -> None:
        """Push from now on, once in an interval."""
        self._delay.start()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="otlp-push")

    async def stop(self) -> None:
        """Push no more."""
        self._delay.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._exporter.shutdown()
        self._threads.shutdown(wait=False)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.push()
            except Exception:
                logger.exception("metrics could not be collected for %s", self._endpoint)

    async def push(self) -> bool:
        """Collect and send once; whether the collector took it."""
        metrics: list[Any] = []
        await in_turns(self._converted(await self._metrics.families(), metrics))
        data = _metrics_data(_resource(self._subject.node_id, self._subject.quorum.image.cluster_id), metrics)
        loop = asyncio.get_running_loop()
        is_sent = await loop.run_in_executor(self._threads, self._send, data)
        self._note(is_sent)
        return is_sent

    def _send(self, data: Any) -> bool:
        """In a thread. The exporter tries again for a while by itself."""
        try:
            return bool(self._exporter.export(data, timeout_millis=_TIMEOUT_S * 1000).name == "SUCCESS")
        except Exception as error:
            logger.debug("the exporter failed: %s", error)
            return False

    def _note(self, is_sent: bool) -> None:
        self.pushes += is_sent
        self.failures += not is_sent
        if is_sent is not self._is_well:
            self._is_well = is_sent
            if is_sent:
                logger.info("the collector at %s takes metrics again", self._endpoint)
            else:
                logger.warning(
                    "the collector at %s does not take metrics: further failures are not told", self._endpoint
                )

    def _now_ns(self) -> int:
        return self._clock.wall_ms() * 1_000_000

    def _converted(self, families: Iterable[Family], metrics: list[Any]) -> Iterator[None]:
        times = self._started_ns, self._now_ns()
        for family in families:
            if not family.name.startswith(_DIALECTS) and family.kind is not Kind.INFO:
                made: list[Any] = []
                yield from _points(family, times, made)
                if made:
                    metrics.append(_metric(family, made))
            yield


def _points(family: Family, times: tuple[int, int], made: list[Any]) -> Iterator[None]:
    if family.kind is Kind.HISTOGRAM:
        yield from _histogram_points(family.samples, times, made)
        return
    from opentelemetry.sdk.metrics.export import NumberDataPoint

    started = times[0] if family.kind is Kind.COUNTER else 0
    for sample in family.samples:
        # The encoder takes no truth values.
        value = int(sample.value) if isinstance(sample.value, bool) else sample.value
        made.append(NumberDataPoint(dict(sample.labels), started, times[1], value))
        yield


def _histogram_points(samples: Iterable[Sample], times: tuple[int, int], made: list[Any]) -> Iterator[None]:
    """Points of histograms, whose samples come in the order of /metrics: buckets, count, sum."""
    from opentelemetry.sdk.metrics.export import HistogramDataPoint

    bounds: list[float] = []
    counts: list[int] = []
    total = 0
    for labels, value, suffix, _ in samples:
        if suffix == "_bucket":
            bounds.append(float(labels[-1][1]))
            counts.append(int(value))
        elif suffix == "_count":
            total = int(value)
        else:
            single = [count - before for before, count in zip([0, *counts], counts, strict=False)]
            shown: Labels = labels
            made.append(HistogramDataPoint(dict(shown), *times, total, value, single, bounds[:-1], 0.0, 0.0))
            bounds, counts = [], []
        yield


def _metric(family: Family, points: list[Any]) -> Any:
    from opentelemetry.sdk.metrics import export as sdk

    cumulative = sdk.AggregationTemporality.CUMULATIVE
    data: Any
    if family.kind is Kind.COUNTER:
        data = sdk.Sum(points, cumulative, is_monotonic=True)
    elif family.kind is Kind.HISTOGRAM:
        data = sdk.Histogram(points, cumulative)
    else:
        data = sdk.Gauge(points)
    return sdk.Metric(family.name, family.help, _UNITS.get(family.unit, ""), data)


_UNITS: Final = {"seconds": "s", "bytes": "By"}


def _metrics_data(resource: Any, metrics: list[Any]) -> Any:
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    scope = ScopeMetrics(InstrumentationScope("ottla", __version__), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _resource(node_id: int, cluster_id: str) -> Any:
    """What tells the node apart. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    attributes: dict[str, str | int] = {
        "service.name": "ottla",
        "service.version": __version__,
        "service.instance.id": f"{cluster_id}/{node_id}",
        "ottla.node.id": node_id,
        "ottla.cluster.id": cluster_id,
    }
    return Resource(attributes).merge(OTELResourceDetector().detect())


def _exporter(endpoint: str) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ImportError as error:
        raise ConfigError(f"{OTLP_ENDPOINT} needs the extra otel: pip install 'ottla[otel]'.") from error
    # Every attempt would be told; this module tells the first failure.
    logging.getLogger(_EXPORTERS_LOG).setLevel(logging.CRITICAL + 1)
    rest = endpoint.partition("://")[2]
    url = endpoint if "/" in rest.rstrip("/") else endpoint.rstrip("/") + _PATH
    return OTLPMetricExporter(endpoint=url, timeout=_TIMEOUT_S)
