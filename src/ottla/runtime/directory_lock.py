"""One process per data directory: an advisory lock that the kernel gives back when the process dies."""

import fcntl
import os

from ottla.errors import ErrorCode, KafkaError


class DirectoryLock:
    """A lock file that is held. It says who holds it; it stays there when it is released, as in Kafka."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: str) -> "DirectoryLock":
        """Lock, or say with a KafkaError which process holds it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{os.path.dirname(path)} is in use by process {holder or 'unknown'}: stop it, or give another directory",
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def release(self) -> None:
        """Let another process have the directory."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
