"""Whether the logs of one directory can be written, and when to look again. Pure.

    event                      the directory then
    write_failed, full         offline; a probe after a pause
    write_failed, otherwise    offline until the next start: what the disk took is unknown
    probed, no room            offline; the next probe after the same pause
    probed, room               offline; another probe after the shortest pause
    probed, room again         online

A directory is one disk, or a part of one: a log that finds no room speaks for all. Room must be found twice: between
the two probes the metadata log takes what it missed, so that the broker does not act on what was decided before. A disk
that is full again soon after it had room is probed less and less often, so that replicas do not come and go.
"""

from typing import Final

FIRST_PAUSE_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 60_000
# A directory that was online for this long begins with the shortest pause again.
CALM_MS: Final = 120_000
NEVER_MS: Final = 1 << 62


class DirectoryState:
    """The state of one log directory. Times are of one clock that never goes back."""

    __slots__ = ("_came_back_ms", "_had_room", "_pause_ms", "is_lost", "is_offline", "probe_at_ms")

    def __init__(self) -> None:
        self.is_offline = False
        self.is_lost = False
        """Whether it stays offline until the next start."""
        self.probe_at_ms = NEVER_MS
        self._pause_ms = FIRST_PAUSE_MS
        self._had_room = False
        self._came_back_ms = -CALM_MS

    def write_failed(self, *, is_full: bool, now_ms: int) -> bool:
        """A log could not be written. Whether that is news."""
        is_news = not self.is_offline
        if is_news:
            is_calm = now_ms - self._came_back_ms >= CALM_MS
            self._pause_ms = FIRST_PAUSE_MS if is_calm else min(2 * self._pause_ms, LONGEST_PAUSE_MS)
            self.probe_at_ms = now_ms + self._pause_ms
        self.is_offline = True
        if not is_full:
            self.is_lost = True
            self.probe_at_ms = NEVER_MS
        return is_news

    def probed(self, *, has_room: bool, now_ms: int) -> None:
        """A probe was written, or was not."""
        if self.is_lost:
            return
        if has_room and self._had_room:
            self.is_offline = False
            self._came_back_ms = now_ms
            self.probe_at_ms = NEVER_MS
        else:
            self.probe_at_ms = now_ms + (FIRST_PAUSE_MS if has_room else self._pause_ms)
        self._had_room = has_room and self.is_offline
