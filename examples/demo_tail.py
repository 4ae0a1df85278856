"""The topic as a web page would follow it: Server-Sent Events of the gateway, with nothing but HTTP.

A browser needs one line for it: `new EventSource("http://localhost:8082/topics/orders/events")`. Like a browser this
follower comes back after a break, and says how far it was.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterable
from urllib.parse import urlsplit

_TIMEOUT_S = 5.0


class LiveTail:
    """Follows a topic from its beginning for the length of a block, in a thread. `heard` is how many records came."""

    def __init__(self, gateway: str, topic: str) -> None:
        address = urlsplit(gateway)
        self.path = f"/topics/{topic}/events?from=earliest"
        self._place = (address.hostname or "localhost", address.port or 80)
        self._last_id = ""
        self._seen: set[tuple[int, int]] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    @property
    def heard(self) -> int:
        return len(self._seen)

    def __enter__(self) -> LiveTail:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(2 * _TIMEOUT_S)

    def _follow(self) -> None:
        while not self._is_over.is_set():
            connection = http.client.HTTPConnection(*self._place, timeout=_TIMEOUT_S)
            try:
                headers = {"Last-Event-ID": self._last_id} if self._last_id else {}
                connection.request("GET", self.path, headers=headers)
                answer = connection.getresponse()
                if answer.status == 200:
                    self.take(answer)
            except (OSError, http.client.HTTPException):
                pass  # the stream was silent, or broke: it is asked for again
            finally:
                connection.close()
            self._is_over.wait(0.2)

    def take(self, lines: Iterable[bytes]) -> None:
        """Read the lines of a stream, until the block ends."""
        event_id = ""
        for line in lines:
            name, _, value = line.decode().rstrip("\r\n").partition(": ")
            if name == "id":
                event_id = value
            elif name == "data":
                record = json.loads(value)
                if "offset" in record:  # else it is an error, after which the stream ends
                    self._seen.add((record["partition"], record["offset"]))
            elif not line.strip():
                self._last_id = event_id or self._last_id
            if self._is_over.is_set():
                return
