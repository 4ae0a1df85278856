"""Whether one log can be written: failing, refusing writes, closed, deleted; and where it could not be read.

A write that fails, as on a full disk, may succeed the next time. After a failed fsync, or a failed write that
could not be undone, the content of the disk is unknown, and the log refuses writes until it is opened again.
Reads go on. A read that fails is noted, and answered with an error; the records may be readable the next time, so
somebody has to look again (server/replicas/damaged_replicas.py).
"""

import logging
from collections.abc import Callable

from ottla.errors import ErrorCode, KafkaError
from ottla.runtime.disk import is_out_of_room

logger = logging.getLogger(__name__)


class Status:
    """The state of one log towards its writers."""

    __slots__ = (
        "_name",
        "_on_failure",
        "_on_refusal",
        "is_closed",
        "is_damaged",
        "is_deleted",
        "is_failing",
        "is_full",
        "refusal",
        "unread_offset",
        "was_closed_cleanly",
    )

    def __init__(self, name: str) -> None:
        self._name = name
        self._on_refusal: Callable[[], None] | None = None
        self._on_failure: Callable[[OSError], None] | None = None
        self.refusal: KafkaError | None = None
        """Why the log accepts no writes; None while it does."""
        self.is_failing = False
        """Whether the last write failed; the next one may succeed."""
        self.is_full = False
        """Whether the last write failed for lack of room, and for no other reason."""
        self.unread_offset: int | None = None
        """An offset of the first segment in which a read failed since `take_unread`; None if none did."""
        self.is_damaged = False
        """Whether a segment was found damaged, and is still in the log."""
        self.is_closed = False
        self.is_deleted = False
        self.was_closed_cleanly = False

    def when_refused(self, watcher: Callable[[], None]) -> None:
        """Have a watcher called, in any thread, when the content of the disk has become unknown."""
        self._on_refusal = watcher

    def when_failing(self, watcher: Callable[[OSError], None]) -> None:
        """Have a watcher called, on the loop, with every write that fails."""
        self._on_failure = watcher

    def refuse(self, reason: str) -> None:
        """Accept no more writes: the content of the disk is unknown."""
        if self.refusal is None:
            logger.error("%s refuses writes until it is opened again: %s", self._name, reason)
            self.refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._name} refuses writes: {reason}")
            if self._on_refusal is not None:
                self._on_refusal()

    def write_succeeded(self) -> None:
        """A write succeeded after one that failed."""
        logger.warning("%s is written to again", self._name)
        self.is_failing = self.is_full = False

    def write_failed(self, problem: OSError) -> KafkaError:
        """The disk did not take an append, or did not begin a segment for it. The answer to the append.

        Logged once, not for every request that arrives while the disk is full.
        """
        self.is_full = is_out_of_room(problem)
        if not self.is_failing:
            logger.error(
                "writing to %s failed: %s. Its writes are refused while this lasts", self._name, problem
            )
            self.is_failing = True
        if self._on_failure is not None:
            self._on_failure(problem)
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{self._name} could not be written: {problem.strerror}"
        )

    def note_unread(self, offset: int) -> None:
        """Records could not be read, or are not what was written; `offset` lies in their segment."""
        self.unread_offset = offset if self.unread_offset is None else min(offset, self.unread_offset)

    def take_unread(self) -> int | None:
        """The noted offset, for somebody who looks there now."""
        offset, self.unread_offset = self.unread_offset, None
        return offset

    def note_damage(self, *, is_damaged: bool) -> None:
        """A segment of the log was read: it is damaged, or the log is whole again."""
        self.is_damaged = is_damaged

    def read_error(self, problem: Exception, offset: int = 0) -> KafkaError:
        """The answer to a read that failed, in the segment of `offset` or a later one."""
        self.note_unread(offset)
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
