"""The process at the other end of a connection is found by the connection's ports."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from ottla.localcluster.socket_owner import can_tell_owners, owner_of

CONNECTS = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    print(connection.getsockname()[1], flush=True)
    sys.stdin.read()
"""


def test_the_owner_of_a_connection_is_the_process_that_made_it() -> None:
    assert can_tell_owners()
    with socket.create_server(("127.0.0.1", 0)) as server:
        door = server.getsockname()[1]
        command = [sys.executable, "-c", CONNECTS, str(door)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            theirs = int(other.stdout.readline())
            with socket.create_connection(("127.0.0.1", door)) as connection:
                ours = connection.getsockname()[1]
                known = [other.pid, os.getpid()]
                assert owner_of(theirs, door, known) == other.pid
                assert owner_of(ours, door, known) == os.getpid()
                assert owner_of(ours, door, [other.pid]) is None
            other.communicate()
        assert owner_of(theirs, door, known) is None
