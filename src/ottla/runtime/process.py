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

    def boot_id(self) -> str:
        try:
            return _BOOT_ID.read_text(encoding="ascii").strip()
        except OSError:
            return ""
