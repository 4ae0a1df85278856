"""One client, one kind of work in transactions, one process: what `bench.transactions` starts for each
measurement.

    python -m bench.transaction_loads transactions --client ottla --bootstrap localhost:9092 --broker-pid 1 --topic t --partitions 10 --records 100 --transactions 200

transactions  one after the other, each of so many records over so many partitions, from begin to committed
idempotence   the same records by an idempotent producer that waits after as many records, by one that does not
              wait, and in transactions
fill          the transactions that are read
read          a topic from its start, as read_uncommitted and as read_committed, by turns
copy          consume, transform, produce: what is read is written to another topic, with the group's offsets

Records are those of `bench/mixed_records.py`. Each work begins with some that do not count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Final

from bench.client import DEADLINE_SECONDS
from bench.mixed_records import MixedRecord, mixed_records
from bench.processes import Stopwatch
from bench.transaction_clients import AT_ONCE, LIBRARIES, Library, Placed

WARM_UP: Final = 0.1  # of what is measured
PASSES: Final = 3  # of each isolation level over the topic

Figures = dict[str, float]


def placed(partitions: int) -> Iterator[Placed]:
    """Mixed records without end, for the partitions in turn."""
    numbers = cycle(range(partitions))
    return (Placed(next(numbers), record) for record in cycle(mixed_records()))


def warm_up_of(count: int) -> int:
    return 3 + int(count * WARM_UP)


def library_of(chosen: argparse.Namespace) -> Library:
    return LIBRARIES[chosen.client]


def identity_of(chosen: argparse.Namespace) -> str:
    return f"bench-{chosen.client}-{chosen.topic}"


async def transactions(chosen: argparse.Namespace) -> Figures:
    """Transactions per second, and the time of each."""
    records, times_ms = placed(chosen.partitions), list[float]()
    async with library_of(chosen).writer(chosen.bootstrap, chosen.topic, identity_of(chosen)) as writer:
        for _ in range(warm_up_of(chosen.transactions)):
            await writer.transact(islice(records, chosen.records))
        with Stopwatch(*chosen.broker_pid) as watch:
            for _ in range(chosen.transactions):
                begun = time.perf_counter()
                await writer.transact(islice(records, chosen.records))
                times_ms.append((time.perf_counter() - begun) * 1e3)
    return {
        "transactions_per_s": chosen.transactions / watch.seconds,
        "p50_ms": percentile(times_ms, 0.50),
        "p99_ms": percentile(times_ms, 0.99),
        "cpu_ms_per_transaction": watch.cpu_seconds / chosen.transactions * 1e3,
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that is not below `share` of the values."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


async def idempotence(chosen: argparse.Namespace) -> Figures:
    """The cost of transactions: the same records without them."""
    total = chosen.transactions * chosen.records
    open_writer = library_of(chosen).writer
    async with (
        open_writer(chosen.bootstrap, chosen.topic, identity_of(chosen)) as transactional,
        open_writer(chosen.bootstrap, chosen.topic, None) as idempotent,
    ):
        source = placed(chosen.partitions)
        for _ in range(warm_up_of(chosen.transactions)):
            await transactional.transact(islice(source, chosen.records))
            await idempotent.write(islice(source, chosen.records))
        with Stopwatch(*chosen.broker_pid) as in_transactions:
            for _ in range(chosen.transactions):
                await transactional.transact(islice(source, chosen.records))
        with Stopwatch(*chosen.broker_pid) as waiting:
            for _ in range(chosen.transactions):
                await idempotent.write(islice(source, chosen.records))
        with Stopwatch(*chosen.broker_pid) as streaming:
            await idempotent.write(islice(source, total))
    return {
        "transactional_krec_per_s": total / in_transactions.seconds / 1e3,
        "idempotent_krec_per_s": total / waiting.seconds / 1e3,
        "idempotent_unwaited_krec_per_s": total / streaming.seconds / 1e3,
        "share_of_idempotent": waiting.seconds / in_transactions.seconds,
        "cpu_ratio_to_idempotent": in_transactions.cpu_seconds / max(waiting.cpu_seconds, 1e-9),
    }


async def fill(chosen: argparse.Namespace) -> Figures:
    """Write the topic that is read: of every `aborted_every` transactions one is aborted."""
    records = placed(chosen.partitions)
    async with library_of(chosen).writer(chosen.bootstrap, chosen.topic, identity_of(chosen)) as writer:
        for number in range(chosen.transactions):
            aborted = _is_aborted(chosen, number)
            await writer.transact(islice(records, chosen.records), commit=not aborted)
    return {}


def _is_aborted(chosen: argparse.Namespace, number: int) -> bool:
    return bool(chosen.aborted_every) and number % chosen.aborted_every == 1


async def read(chosen: argparse.Namespace) -> Figures:
    """The time for the whole topic, by isolation level; the rates count aborted records for both."""
    aborted = sum(_is_aborted(chosen, number) for number in range(chosen.transactions))
    total = chosen.transactions * chosen.records
    watches: dict[bool, list[Stopwatch]] = {False: [], True: []}
    for number in range(2 * PASSES):
        committed = number % 2 == 1
        expected = total - aborted * chosen.records * committed
        watches[committed].append(await _one_pass(chosen, expected, committed=committed))
    seconds = {level: statistics.median(each.seconds for each in done) for level, done in watches.items()}
    cpu = {level: statistics.median(each.cpu_seconds for each in done) for level, done in watches.items()}
    return {
        "uncommitted_krec_per_s": total / seconds[False] / 1e3,
        "committed_krec_per_s": total / seconds[True] / 1e3,
        "share_of_uncommitted": seconds[False] / seconds[True],
        "cpu_us_per_record_uncommitted": cpu[False] / total * 1e6,
        "cpu_us_per_record": cpu[True] / total * 1e6,
    }


async def _one_pass(chosen: argparse.Namespace, expected: int, *, committed: bool) -> Stopwatch:
    """From the first request to the last record."""
    with Stopwatch(*chosen.broker_pid) as watch:
        async with library_of(chosen).reader(
            chosen.bootstrap, chosen.topic, chosen.partitions, committed=committed, group=None
        ) as reader:
            count, deadline = 0, time.monotonic() + DEADLINE_SECONDS
            while count < expected:
                count += len(await reader.more(min(AT_ONCE, expected - count)))
                if time.monotonic() > deadline:
                    raise TimeoutError(f"read {count} of {expected} records")
    return watch


async def copy(chosen: argparse.Namespace) -> Figures:
    """Records per second from topic to topic, in transactions of up to `records` records."""
    library, wanted = library_of(chosen), chosen.transactions * chosen.records
    group = f"{identity_of(chosen)}-group"
    done = transactions_done = 0
    async with (
        library.writer(chosen.bootstrap, chosen.output, group) as writer,
        library.reader(
            chosen.bootstrap, chosen.topic, chosen.partitions, committed=True, group=group
        ) as reader,
    ):
        deadline = time.monotonic() + DEADLINE_SECONDS

        async def one_transaction() -> int:
            found = await reader.more(chosen.records)
            if time.monotonic() > deadline:
                raise TimeoutError(f"copied {done} of {wanted} records")
            if found:
                await writer.transact(transformed(found, chosen.partitions), reader)
            return len(found)

        for _ in range(3):
            while not await one_transaction():  # joined, and connected to all partitions
                pass
        with Stopwatch(*chosen.broker_pid) as watch:
            while done < wanted:
                count = await one_transaction()
                done, transactions_done = done + count, transactions_done + bool(count)
    return {
        "krec_per_s": done / watch.seconds / 1e3,
        "records_per_transaction": done / transactions_done,
        "cpu_us_per_record": watch.cpu_seconds / done * 1e6,
    }


def transformed(found: Sequence[tuple[bytes, bytes]], partitions: int) -> Iterator[Placed]:
    """A record for each that was read, to a partition that its key gives."""
    return (
        Placed(sum(key) % partitions, MixedRecord(key, value.upper(), [("copied", b"yes")]))
        for key, value in found
    )


WORKS: Final = {each.__name__: each for each in (transactions, idempotence, fill, read, copy)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", choices=list(WORKS))
    options.add_argument("--client", choices=list(LIBRARIES), required=True)
    options.add_argument("--bootstrap", required=True)
    options.add_argument("--broker-pid", type=int, action="append", default=[])
    options.add_argument("--topic", required=True)
    options.add_argument("--output", default="", help="the topic that copies go to")
    options.add_argument("--partitions", type=int, required=True)
    options.add_argument("--records", type=int, required=True, help="in each transaction")
    options.add_argument("--transactions", type=int, required=True)
    options.add_argument("--aborted-every", type=int, default=0)
    chosen = options.parse_args()
    print(json.dumps(asyncio.run(WORKS[chosen.work](chosen))))


if __name__ == "__main__":
    main()
