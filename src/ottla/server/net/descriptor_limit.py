"""How many files this process may open, and what a broker keeps of that for its logs.

A process starts with a soft limit (often 1,024) far below what it is allowed to ask for. A broker asks: each
connection is a descriptor, each open segment another, each mapped index one more.
"""

import logging

logger = logging.getLogger(__name__)

# Half of the descriptors are for connections; the other half is shared by segment files and index maps.
_SHARE_OF_FILES = 4
_LEAST_FILES = 16


def raise_descriptor_limit() -> int | None:
    """Raise the soft limit to the hard one; answer the limit in force, None where there is none to ask
    for.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:
            logger.warning("the limit of open files stays at %d: %s", soft, error)
    return None if soft == resource.RLIM_INFINITY else soft


def open_files_within(wanted: int, descriptor_limit: int | None) -> int:
    """How many segment files, and how many maps, may be open at once."""
    if descriptor_limit is None:
        return wanted
    return max(_LEAST_FILES, min(wanted, descriptor_limit // _SHARE_OF_FILES))
