"""All metrics of a node as one text, collected a millisecond at a time.

A text is kept for four times as long as it took to collect: however often somebody asks, at most a fifth of the
event loop's time goes into answers. Those who ask while a text is being collected share it.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from ottla.runtime.turns import encoded_in_turns, in_turns
from ottla.server.monitoring.cluster_metrics import cluster_families, quorum_families
from ottla.server.monitoring.exporter_names import exporter_families
from ottla.server.monitoring.group_metrics import group_families, transaction_families
from ottla.server.monitoring.jmx_names import jmx_families
from ottla.server.monitoring.log_metrics import (
    disk_families,
    limit_families,
    partition_families,
    replica_families,
    topic_families,
)
from ottla.server.monitoring.loop_delay import LoopDelay
from ottla.server.monitoring.node_metrics import (
    client_families,
    connection_families,
    process_families,
    request_families,
)
from ottla.server.monitoring.subject import Subject
from ottla.server.monitoring.survey import Survey, UnreadTimes
from ottla.telemetry.families import Family
from ottla.telemetry.label_limit import LabelLimit
from ottla.telemetry.openmetrics import exposition

_REST: Final = 4


class Metrics:
    """The metrics of one node."""

    def __init__(self, subject: Subject, delay: LoopDelay) -> None:
        self._subject = subject
        self._delay = delay
        self._topic_limit = LabelLimit(subject.config.monitoring.max_partitions)
        self._group_limit = LabelLimit(subject.config.monitoring.max_group_partitions)
        self._unread = UnreadTimes()
        self._texts: dict[bool, tuple[float, list[bytes]]] = {}
        self._collecting: dict[bool, asyncio.Task[list[bytes]]] = {}

    async def survey(self) -> Survey:
        """A look at all partitions, groups and transactions."""
        survey = Survey(self._subject, self._topic_limit, self._group_limit, self._unread)
        await in_turns(survey.look())
        return survey

    async def families(self) -> Iterator[Family]:
        """All families, of a new look. Their samples are generators: take them in turns."""
        return self._families(await self.survey(), 0)

    async def text(self, *, openmetrics: bool, refused_http: int) -> list[bytes]:
        """The whole text, in pieces."""
        loop = asyncio.get_running_loop()
        until, text = self._texts.get(openmetrics, (0.0, []))
        if loop.time() < until:
            return text
        task = self._collecting.get(openmetrics)
        if task is None:
            task = loop.create_task(self._collect(openmetrics, refused_http))
            self._collecting[openmetrics] = task
            task.add_done_callback(lambda _: self._collecting.pop(openmetrics))
        return await asyncio.shield(task)

    async def _collect(self, openmetrics: bool, refused_http: int) -> list[bytes]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        survey = await self.survey()
        lines = exposition(self._families(survey, refused_http), openmetrics=openmetrics)
        text = await encoded_in_turns(lines)
        ended = loop.time()
        self._texts[openmetrics] = ended + _REST * (ended - begun), text
        return text

    def _families(self, survey: Survey, refused_http: int) -> Iterator[Family]:
        subject, loop = self._subject, asyncio.get_running_loop()
        offset_s = subject.runtime.clock.wall_s() - loop.time()
        yield from process_families(subject, self._delay, refused_http)
        yield from connection_families(subject)
        yield from request_families(subject, lambda at_s: at_s + offset_s)
        yield from client_families(subject)
        yield from quorum_families(subject)
        yield from cluster_families(subject, survey)
        yield from replica_families(subject, survey)
        yield from disk_families(subject)
        yield from topic_families(survey)
        yield from group_families(survey)
        yield from transaction_families(survey)
        yield from limit_families(survey)
        yield from partition_families(survey)
        yield from exporter_families(subject, survey)
        yield from jmx_families(subject, survey)
