"""Facts about this process from the operating system: CPU time, memory, the limit of open files."""

import os
import time
from typing import Protocol


class Process(Protocol):
    """The process that a broker runs in."""

    def cpu_s(self) -> float:
        """CPU time used so far."""

    def resident_bytes(self) -> int:
        """Memory in use."""


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
