"""Facts about this process and its machine from the operating system: CPU time, memory, the boot."""

import os
import time
from pathlib import Path
from typing import Final, Protocol

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Process(Protocol):
    """The process that a broker runs in."""

    def cpu_s(self) -> float:
        """CPU time used so far."""

    def resident_bytes(self) -> int:
        """Memory in use."""

    def open_files(self) -> int:
        """Descriptors in use; 0 where the operating system does not say."""

    def max_files(self) -> int:
        """The most descriptors that this process may use."""

    def started_s(self) -> float:
        """When the process started, in seconds since 1970; 0 where that is not known."""

    def boot_id(self) -> str:
        """An id of the machine's time since it was switched on; empty if there is none.

        While it is the same, nothing that was written to a file is lost, whether or not it was flushed.
        """


class OsProcess:
    """This process."""

    def cpu_s(self) -> float:
        return time.process_time()

    def resident_bytes(self) -> int:
        try:
            with open("/proc/self/statm", "rb") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            # Elsewhere than on Linux: the highest amount so far.
            import resource

            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def open_files(self) -> int:
        try:
            return len(os.listdir("/proc/self/fd"))
        except OSError:
            return 0

    def max_files(self) -> int:
        import resource

        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def started_s(self) -> float:
        try:
            with open("/proc/self/stat", "rb") as file:
                # The 22nd field; the second is a name, which may have spaces and brackets in it.
                ticks = int(file.read().rpartition(b")")[2].split()[19])
        except OSError:
            return 0.0
        since_boot_s = ticks / os.sysconf("SC_CLK_TCK")
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot_s

    def boot_id(self) -> str:
        try:
            return _BOOT_ID.read_text(encoding="ascii").strip()
        except OSError:
            return ""
