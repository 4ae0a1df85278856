"""How the cleaner reads batches: piece by piece, verified, and within its throughput limit (RET-5).

A piece is as large as `log.cleaner.io.buffer.size`, unless a single batch is larger. Every batch's checksum
is verified before the batch is used: damaged data must not be rewritten as if it were valid.
"""

from collections.abc import Callable, Iterator

from ottla.records.batch import HEADER_BYTES, BatchHeader, BatchView, CorruptRecord, read_header
from ottla.runtime.disk import File

_GLANCE_BYTES = 8192


class Throttle:
    """Limits the bytes per second, read and written together.

    `check` is called before each read and write.
    """

    __slots__ = ("_check", "_clock", "_due", "_rate", "_sleep")

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._check = check
        self._due = clock()

    def spend(self, size_bytes: int) -> None:
        """Wait until these bytes may be read or written."""
        self._check()
        now = self._clock()
        # The unused allowance of more than a second is lost: no burst makes up for a pause.
        self._due = max(self._due, now - 1.0) + size_bytes / self._rate
        while (left := self._due - now) > 0:
            # In short sleeps, so that `check` soon notices a broker that has died.
            self._sleep(min(left, 0.1))
            self._check()
            now = self._clock()


class SegmentReader:
    """The first `size_bytes` of one segment's .log file, whose offsets lie in `offsets`."""

    __slots__ = ("_file", "_offsets", "_path", "_piece_bytes", "_size_bytes", "_throttle")

    def __init__(
        self, file: File, path: str, size_bytes: int, offsets: range, *, piece_bytes: int, throttle: Throttle
    ) -> None:
        self._file = file
        self._path = path
        self._size_bytes = size_bytes
        self._offsets = offsets
        self._piece_bytes = max(piece_bytes, HEADER_BYTES)
        self._throttle = throttle

    def batches(self) -> Iterator[tuple[BatchView, bool]]:
        """Every batch, whole, and whether it is the last.

        CorruptRecord, with path and position, for a damaged one.
        """
        position, lowest_offset, wanted = 0, self._offsets.start, self._piece_bytes
        while position < self._size_bytes:
            piece = self._read(position, wanted)
            start, wanted = 0, self._piece_bytes
            while start + HEADER_BYTES <= len(piece):
                end = self._batch_end(piece, start, position)
                if end > len(piece):
                    break
                batch = BatchView(piece, start)
                self._verify(batch, position + start, lowest_offset)
                yield batch, position + end == self._size_bytes
                start, lowest_offset = end, batch.next_offset
            if not start:
                # A batch that is larger than a piece is read as a whole, and released afterwards.
                wanted = self._batch_end(piece, 0, position)
            position += start

    def headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """The position and header of every batch, unverified, without reading the records."""
        position, window, window_start = 0, b"", 0
        while position < self._size_bytes:
            if position + HEADER_BYTES > window_start + len(window):
                window, window_start = self._read(position, _GLANCE_BYTES), position
            self._batch_end(window, position - window_start, window_start)
            header = read_header(window, position - window_start)
            yield position, header
            position += header.size_bytes

    def batch_at(self, position: int) -> BatchView:
        """The whole batch at a position that `headers` returned, verified."""
        header = read_header(self._read(position, HEADER_BYTES))
        batch = BatchView(self._read(position, header.size_bytes))
        self._verify(batch, position, self._offsets.start)
        return batch

    def _read(self, position: int, size_bytes: int) -> bytes:
        size_bytes = min(size_bytes, self._size_bytes - position)
        self._throttle.spend(size_bytes)
        data = self._file.read(position, size_bytes)
        if len(data) < size_bytes:
            raise CorruptRecord(f"{self._path} at {position}: the file is shorter than it was")
        return data

    def _batch_end(self, piece: bytes, start: int, position: int) -> int:
        """Where the batch at `start` of the piece ends; the piece was read from `position`."""
        try:
            header = read_header(piece, start)
        except CorruptRecord as problem:
            raise CorruptRecord(f"{self._path} at {position + start}: {problem}") from None
        end = start + header.size_bytes
        if position + end > self._size_bytes:
            raise CorruptRecord(f"{self._path} at {position + start}: the batch is cut off")
        return end

    def _verify(self, batch: BatchView, position: int, lowest_offset: int) -> None:
        if not batch.crc_is_valid():
            raise CorruptRecord(f"{self._path} at {position}: the checksum is wrong")
        # Offsets lie outside the checksum.
        if not lowest_offset <= batch.base_offset <= batch.last_offset < self._offsets.stop:
            raise CorruptRecord(
                f"{self._path} at {position}: offsets {batch.base_offset} to {batch.last_offset}"
                f" are not between {lowest_offset} and {self._offsets.stop}"
            )
