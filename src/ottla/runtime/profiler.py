"""A sampling profile of this process: which functions are on the stacks of its threads, and how often.

The result has one line for each stack that was seen, the outermost function first and the number of samples at the
end (`main;serve;read 17`): the collapsed form that flame graph tools read. Sampling needs nothing from the code
that is looked at.
"""

import sys
import threading
import time
from collections import Counter
from pathlib import PurePath
from types import FrameType
from typing import Final

SAMPLES_PER_S: Final = 100
_MOST_FRAMES: Final = 200
_MOST_STACKS: Final = 20_000
_OTHER: Final = "(other_stacks)"


def sample(seconds: float) -> list[str]:
    """Look at all threads but this one for some seconds; the lines of the profile, the most frequent first."""
    own, seen = threading.get_ident(), Counter[str]()
    names: dict[int, str] = {}
    ends_s = time.monotonic() + seconds
    while (now_s := time.monotonic()) < ends_s:
        names.update({each.ident: each.name for each in threading.enumerate() if each.ident is not None})
        for ident, frame in sys._current_frames().items():
            if ident != own:
                stack = f"{names.get(ident, 'thread')};{_collapsed(frame)}".replace(" ", "_")
                seen[stack if stack in seen or len(seen) < _MOST_STACKS else _OTHER] += 1
        time.sleep(max(0.0, min(now_s + 1 / SAMPLES_PER_S, ends_s) - time.monotonic()))
    return [f"{stack} {count}\n" for stack, count in seen.most_common()]


def _collapsed(frame: FrameType | None) -> str:
    names: list[str] = []
    while frame is not None and len(names) < _MOST_FRAMES:
        code = frame.f_code
        names.append(f"{PurePath(code.co_filename).stem}.{code.co_qualname}")
        frame = frame.f_back
    return ";".join(reversed(names))
