"""The context of a definition while a pipeline is read: which pipeline, which flow, where the brokers are, and how
they are reached.

`ottla pipeline run` reads each file of a project once per update, and Spark calls each flow's function while
its definition is registered. Around that call stands a `Recorder`, so that `read_topic` can name a group
after the flow, and so that the pipeline knows afterwards which flow reads which topic. Outside a pipeline
there is none, and the steps take everything from their arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class TopicRead:
    """A flow reads a topic, and commits its progress to a group."""

    topic: str
    group: str


@dataclass(slots=True)
class Recorder:
    """The flow whose function is being called, and what it asked for."""

    pipeline: str
    flow: str
    bootstrap_servers: str | None = None
    since: str | None = None  # set where the flow is rebuilt from a time, not from the start of its topics
    reads: list[TopicRead] = field(default_factory=list)


_current: ContextVar[Recorder | None] = ContextVar("ottla_pipeline_recorder", default=None)


_login: ContextVar[Mapping[str, str]] = ContextVar("ottla_pipeline_login", default=MappingProxyType({}))


def current_login() -> Mapping[str, str]:
    """The properties with which the pipeline that is being read reaches its brokers; none outside a pipeline."""
    return _login.get()


@contextmanager
def logging_in(properties: Mapping[str, str]) -> Iterator[None]:
    """While the files of a pipeline are read."""
    token = _login.set(properties)
    try:
        yield
    finally:
        _login.reset(token)


def current_flow() -> Recorder | None:
    """The flow that is being defined; None outside a pipeline."""
    return _current.get()


@contextmanager
def defining(recorder: Recorder) -> Iterator[Recorder]:
    """While a flow's function is called."""
    token = _current.set(recorder)
    try:
        yield recorder
    finally:
        _current.reset(token)
