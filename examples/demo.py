"""Three brokers, a stream of orders, a pipeline on Spark; a broker is killed, and audits look for damage.

You can type everything yourself: `ottla cluster`, `ottla pipeline`, `ottla audit`. The cluster is started and
broken with `ottla.localcluster`, the library of `ottla cluster`; the pipeline is the project in
examples/order_pipeline, and examples/demo_receipts.py beside it, which writes a topic exactly once. The demo takes
about a minute and leaves nothing behind, unless you ask for it. It ends with one query over an Iceberg table and the
log after it (examples/demo_lake.py). A gateway shows the cluster in a browser meanwhile, and the orders come over HTTP
as well (examples/demo_tail.py).

    make demo
    python -m examples.demo --seconds 60 --rate 2000 --keep
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from examples.demo_commands import OTTLA, DemoError, audit, running
from examples.demo_lake import LakeAnswer, ask_table_and_log
from examples.demo_orders import TOPIC, Generator, Sent
from examples.demo_tail import LiveTail
from examples.demo_view import Scene, View
from examples.demo_watch import DEAD_TOPIC, PARTITIONS, PIPELINE, RECEIPT_TOPIC, TABLES, Seen, Watch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ottla import NewTopic
from ottla.blocking import Admin
from ottla.cli.cluster.local_gateway import gateway_said, start_gateway
from ottla.cli.gateway_process import is_installed
from ottla.client.requests.outcomes import succeeded
from ottla.errors import KafkaError
from ottla.localcluster.cluster import LocalCluster
from ottla.localcluster.launch import running_cluster
from ottla.localcluster.plan.cluster import ClusterOptions
from ottla.localcluster.state import ClusterError

BROKERS = 3
PROJECT = Path(__file__).with_name(PIPELINE)
RECEIPTS = Path(__file__).with_name("demo_receipts.py")
SEED = 20
_LOOK_S = 0.1
_AWAY = 0.2  # how long the killed broker is left dead, of the time that orders flow
_PIPELINE_DEADLINE_S = 180.0  # until its first rows are there: a cold JVM on a small machine
_DRAIN_DEADLINE_S = 180.0


@dataclass(frozen=True, slots=True)
class Options:
    """How much of it."""

    seconds: float
    rate: float


@dataclass(frozen=True, slots=True)
class Killing:
    """When a broker was killed and was back."""

    broker: int
    killed_at: float
    back_at: float


class Demo:
    """One run in a directory of its own."""

    def __init__(self, directory: Path, cluster: LocalCluster, options: Options, console: Console) -> None:
        self.project = directory / PIPELINE
        bootstrap = cluster.bootstrap
        self._cluster, self._bootstrap, self._options = cluster, bootstrap, options
        self._generator = Generator(bootstrap, options.rate, SEED)
        self._watch = Watch(bootstrap, TOPIC, self.project / "tables")
        self._scene = Scene(brokers=dict.fromkeys(range(1, BROKERS + 1), True))
        self._view = View(console, self.sent, self.seen, self._scene)
        self._pipeline: subprocess.Popen[bytes] | None = None
        self._log = directory / "pipeline.log"

    @property
    def sent(self) -> Sent:
        return self._generator.sent

    @property
    def seen(self) -> Seen:
        return self._watch.seen

    def prepare(self) -> None:
        shutil.copytree(
            PROJECT, self.project, ignore=shutil.ignore_patterns("tables", "storage", "__pycache__")
        )
        shutil.copy(RECEIPTS, self.project / "transformations")
        topics = [
            NewTopic(TOPIC, partitions=PARTITIONS),
            NewTopic(DEAD_TOPIC, partitions=1),
            NewTopic(RECEIPT_TOPIC, partitions=PARTITIONS),
        ]
        with Admin(self._bootstrap) as admin:
            succeeded(admin.create_topics(topics))

    def stream(self) -> Killing:
        """Orders flow, a broker dies and comes back, everything is drained; the pipeline ends."""
        command = [
            *OTTLA,
            "pipeline",
            "run",
            str(self.project),
            "--continuous",
            "--bootstrap",
            self._bootstrap,
        ]
        with self._view, running(command, self._log) as self._pipeline, self._watch:
            try:
                self._generator.start()
                self._view.say(
                    f"{self._options.rate:,.0f} orders per second; the pipeline starts ({PROJECT.name})."
                )
                begun = time.monotonic()
                self._until(
                    lambda: self.seen.rows["raw_orders"] > 0, _PIPELINE_DEADLINE_S, "rows in the table"
                )
                self._until(
                    lambda: time.monotonic() > begun + self._options.seconds * 0.4, self._options.seconds
                )
                killing = self._kill()
                self._until(lambda: time.monotonic() > begun + self._options.seconds, self._options.seconds)
            finally:
                self._generator.stop()
            self._view.say(f"{self.sent.acknowledged:,} orders were acknowledged; the pipeline catches up.")
            self._until(lambda: self.seen.has_everything, _DRAIN_DEADLINE_S, "everything in raw_orders")
            self._until(Idle(self._log).is_seen, _DRAIN_DEADLINE_S, "an update that found nothing to do")
            self._view.say("The pipeline has everything; it stops.")
        return killing

    def _kill(self) -> Killing:
        with Admin(self._bootstrap) as admin:
            leader = succeeded(admin.describe_topics([TOPIC]))[TOPIC].partitions[0].leader
        assert leader is not None
        killed_at = time.monotonic()
        self._cluster.kill(leader)
        self._scene.brokers[leader] = False
        self._view.say(f"[bold red]Broker {leader} is dead[/] (kill -9); it led partition 0.")
        away_s = self._options.seconds * _AWAY
        self._until(lambda: time.monotonic() > killed_at + away_s, away_s)
        pause_ms = self.sent.longest_pause_ms(killed_at, time.monotonic())
        self._view.say(f"Nobody noticed: the longest pause of any partition was {pause_ms:,.0f} ms.")
        self._cluster.start_broker(leader)
        self._scene.brokers[leader] = True
        self._view.say(f"Broker {leader} is back.")
        return Killing(leader, killed_at, time.monotonic())

    def _until(self, condition: Callable[[], bool], deadline_s: float, what: str = "") -> None:
        """Show what goes on until then; DemoError if that never comes, or if the pipeline ends meanwhile."""
        deadline = time.monotonic() + deadline_s + 1
        while not condition():
            assert self._pipeline is not None
            if self._pipeline.poll() is not None:
                raise DemoError(f"the pipeline ended:\n{self._log.read_text(errors='replace')[-3000:]}")
            if time.monotonic() > deadline:
                said = self._log.read_text(errors="replace")[-2000:]
                raise DemoError(
                    f"after {deadline_s:.0f} s there is still not {what}; the pipeline says:\n{said}"
                )
            self._view.show()
            time.sleep(_LOOK_S)


class Idle:
    """Waits for an update of the pipeline that found nothing new: then the tables are complete."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._begin = log.stat().st_size

    def is_seen(self) -> bool:
        said = self._log.read_bytes()[self._begin :].decode(errors="replace")
        updates = [
            re.findall(r"read ([\d,]+) rows", line)
            for line in said.splitlines()
            if "update completed" in line
        ]
        return any(len(rows) >= len(TABLES) and set(rows) == {"0"} for rows in updates)


# The checks

AUDITED = (
    "raw_orders is the topic: ottla audit",
    "each order has one receipt in a topic: ottla audit",
)


class Check(NamedTuple):
    claim: str
    holds: bool
    detail: str


class Audits(NamedTuple):
    """What `ottla audit` says about the topic of orders beside the first table, and beside the topic of receipts."""

    table: dict[str, Any]
    receipts: dict[str, Any]


def lake_check(sent: Sent, answer: LakeAnswer) -> Check:
    """One query over an Iceberg table and the log after it has each order once."""
    cold, hot = answer.table_rows, answer.rows - answer.table_rows
    detail = (
        f"{cold:,} from the table, {hot:,} from the log; most orders: {answer.country}, {answer.orders:,}"
    )
    holds = answer.rows == sent.total and 0 < cold < sent.total
    return Check("one query over table and log has every order: ottla sql", holds, detail)


def checks(sent: Sent, seen: Seen, killing: Killing, audits: Audits) -> Iterator[Check]:
    """What must be true at the end."""
    total, kinds = sent.total, sent.kinds
    acknowledged = sent.acknowledged == total and not sent.errors
    yield Check("every order was acknowledged", acknowledged, sent.errors[0] if sent.errors else f"{total:,}")
    pause_ms = sent.longest_pause_ms(killing.killed_at, killing.back_at)
    yield Check("a dead broker did not stop the writers", acknowledged, f"longest pause {pause_ms:,.0f} ms")
    for claim, audited in zip(AUDITED, audits, strict=True):
        rows = f"{audited['records']:,} records, {audited['rows']:,} rows"
        yield Check(claim, bool(audited["equal"]) and audited["records"] == total, rows)
    dead, bad = len(seen.dead), kinds["bad"]
    yield Check("every bad order is a dead letter, and no other", dead == bad, f"{dead:,} of {bad:,}")
    good, held = total - bad - kinds["twice"], seen.rows["orders"]
    detail = f"{held:,} of {good:,}; {kinds['twice']:,} came twice, {kinds['late']:,} came late"
    yield Check("orders has each good order once", held == good, detail)
    counted = sum(window.orders for window in seen.windows.values())
    detail = f"{len(seen.windows):,} windows of 10 s with {counted:,} orders; those that are open are not written yet"
    yield Check("revenue has closed windows", bool(seen.windows), detail)


def tail_check(sent: Sent, heard: int) -> Check:
    """What came over HTTP while the orders flowed, a broker died and came back."""
    return Check(
        "a live tail over HTTP heard every order", heard == sent.total, f"{heard:,} of {sent.total:,}"
    )


def summarise(console: Console, found: list[Check], seconds: float) -> bool:
    table = Table(title=f"{seconds:.0f} seconds")
    for column in ("check", "", "what was seen"):
        table.add_column(column, overflow="fold")
    for check in found:
        table.add_row(
            check.claim, "[green]holds[/]" if check.holds else "[bold red]FAILS[/]", escape(check.detail)
        )
    console.print(table)
    failed = [check.claim for check in found if not check.holds]
    if failed:
        console.print(f"[bold red]FAILED[/]: {'; '.join(failed)}", highlight=False)
    else:
        console.print(f"[bold green]All {len(found)} checks hold.[/]", highlight=False)
    return not failed


GO_ON = """\
Where to go on:
  examples/order_pipeline      the pipeline that you saw, to copy; docs/pipelines.md
  ottla pipeline init NAME     one of your own
  ottla cluster up --detach    the brokers, to stay; docs/cluster.md
  ottla audit TOPIC TABLE      is the table, or topic:NAME, the topic? docs/exactly-once.md
  ottla lake enable TOPIC      a topic as an Iceberg table, and SQL over both: docs/lake.md"""


def gateway_address(data: Path) -> str | None:
    """The address of a gateway to this cluster, if its libraries are there; it ends with the cluster."""
    if not is_installed():
        return None
    start_gateway(data, "localhost:0", console_writes=False, is_detached=True)
    found = re.search(r"(http\S+)/console", gateway_said(data))
    return None if found is None else found[1]


def heard_in_time(tail: LiveTail, total: int) -> int:
    """How many orders the tail has heard when it has all of them, or when time is up."""
    deadline = time.monotonic() + _DRAIN_DEADLINE_S
    while tail.heard < total and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    return tail.heard


def run(directory: Path, options: Options, console: Console) -> bool:
    begun = time.monotonic()
    with running_cluster(directory / "cluster", ClusterOptions(brokers=BROKERS, port=0)) as cluster:
        bootstrap = cluster.bootstrap
        console.print(f"Three brokers are ready at {bootstrap}.", highlight=False, soft_wrap=True)
        gateway = gateway_address(directory / "cluster")
        demo = Demo(directory, cluster, options, console)
        demo.prepare()
        with contextlib.ExitStack() as follows:
            tail = None if gateway is None else follows.enter_context(LiveTail(gateway, TOPIC))
            if tail is not None:
                console.print(f"See it live in a browser: {gateway}/console", highlight=False, soft_wrap=True)
                words = f"The same topic over HTTP: curl -N '{gateway}{tail.path}'"
                console.print(words, highlight=False, soft_wrap=True)
            killing = demo.stream()
            heard = None if tail is None else heard_in_time(tail, demo.sent.total)
        console.print(
            "The audits: Spark jobs compare the topic with the table, and with the topic of receipts, record by record.",
            highlight=False,
        )
        table = str(demo.project / "tables" / "raw_orders")
        audits = Audits(*(audit(TOPIC, each, bootstrap) for each in (table, f"topic:{RECEIPT_TOPIC}")))
        answer = ask_table_and_log(bootstrap, TOPIC, demo.sent.total, directory)
    found = [*checks(demo.sent, demo.seen, killing, audits), lake_check(demo.sent, answer)]
    if heard is not None:
        found.append(tail_check(demo.sent, heard))
    return summarise(console, found, time.monotonic() - begun)


def _end_by_signal(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--seconds", type=float, default=30.0, metavar="S", help="how long orders flow (default 30)"
    )
    parser.add_argument(
        "--rate", type=float, default=400.0, metavar="N", help="orders per second (default 400)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the tables and the data there")
    given = parser.parse_args()
    if given.seconds < 1 or given.rate < 1:
        parser.error("--seconds and --rate must be at least 1")
    signal.signal(signal.SIGTERM, _end_by_signal)
    console, directory = Console(), Path(tempfile.mkdtemp(prefix="ottla-demo-"))
    try:
        holds = run(directory, Options(given.seconds, given.rate), console)
        console.print(GO_ON, highlight=False)
        return 0 if holds else 1
    except KeyboardInterrupt:
        console.print("Stopped.", highlight=False)
        return 130
    except (DemoError, ClusterError, KafkaError, OSError) as error:
        console.print("[bold red]FAILED[/]:", escape(str(error)), highlight=False, soft_wrap=True)
        return 1
    finally:
        if given.keep:
            console.print(f"Everything is in {directory}", highlight=False, soft_wrap=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
