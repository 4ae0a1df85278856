"""Whether one log can be written: failing, refusing writes, closed, deleted.

A write that fails, as on a full disk, may succeed the next time. After a failed fsync, or a failed write that
could not be undone, the content of the disk is unknown, and the log refuses writes until it is opened again.
Reads go on.
"""

import logging
from collections.abc import Callable

from ottla.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


class Status:
    """The state of one log towards its writers."""

    __slots__ = (
        "_name",
        "_on_refusal",
        "is_closed",
        "is_deleted",
        "is_failing",
        "refusal",
        "was_closed_cleanly",
    )

    def __init__(self, name: str) -> None:
        self._name = name
        self._on_refusal: Callable[[], None] | None = None
        self.refusal: KafkaError | None = None
        """Why the log accepts no writes; None while it does."""
        self.is_failing = False
        """Whether the last write failed; the next one may succeed."""
        self.is_closed = False
        self.is_deleted = False
        self.was_closed_cleanly = False

    def when_refused(self, watcher: Callable[[], None]) -> None:
        """Have a watcher called, in any thread, when the content of the disk has become unknown."""
        self._on_refusal = watcher

    def refuse(self, reason: str) -> None:
        """Accept no more writes: the content of the disk is unknown."""
        if self.refusal is None:
            logger.error("%s refuses writes until it is opened again: %s", self._name, reason)
            self.refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._name} refuses writes: {reason}")
            if self._on_refusal is not None:
                self._on_refusal()

    def write_failed(self, problem: OSError) -> None:
        """A write failed. Logged once, not for every request that arrives while the disk is full."""
        if not self.is_failing:
            logger.error(
                "writing to %s failed: %s. Its writes are refused while this lasts", self._name, problem
            )
            self.is_failing = True

    def write_succeeded(self) -> None:
        """A write succeeded after one that failed."""
        logger.warning("%s is written to again", self._name)
        self.is_failing = False

    def write_error(self, problem: OSError) -> KafkaError:
        """The answer to an append that the disk did not take."""
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{self._name} could not be written: {problem.strerror}"
        )

    def read_error(self, problem: Exception) -> KafkaError:
        """The answer to a read that failed."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._name} cannot be read: {problem}")

    def begin_close(self) -> None:
        """The log is being closed: background work must not start on it any more."""
        self.is_closed = True

    def note_clean_close(self) -> None:
        """Everything in the log is durable; the next opening scans nothing."""
        self.was_closed_cleanly = True

    def complete_close(self) -> None:
        """All files are closed: refuse writes that arrive late."""
        if self.refusal is None:
            self.refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._name} is closed")

    def note_deletion(self) -> None:
        """The log's directory is no longer at its place."""
        self.is_deleted = True
