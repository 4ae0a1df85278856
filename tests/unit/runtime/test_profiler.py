"""Stacks of all other threads, in the form of flame graph tools (OPS-2)."""

import threading

from ottla.runtime.profiler import sample


def waits_for_the_test(go: threading.Event) -> None:
    go.wait(30)


def test_a_thread_is_seen_where_it_waits_with_its_callers_before_it() -> None:
    go = threading.Event()
    thread = threading.Thread(target=waits_for_the_test, args=(go,), name="some worker")
    thread.start()
    try:
        lines = sample(0.15)
    finally:
        go.set()
        thread.join()
    (line,) = [line for line in lines if line.startswith("some_worker;")]
    stack, _, count = line.rstrip("\n").rpartition(" ")
    names = stack.split(";")
    assert names.index("test_profiler.waits_for_the_test") < names.index("threading.Event.wait")
    assert int(count) >= 1
    assert not any("profiler.sample" in line for line in lines)
