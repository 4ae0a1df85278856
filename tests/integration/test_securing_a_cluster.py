"""docs/security.md, From an open cluster to a secured one: its steps, one after the other, on three brokers that
run, under a producer and a consumer that lose nothing (OPS-5).
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner, Result
from tests.integration.in_process import BrokerThread

import ottla.blocking
from ottla.cli.broker_settings import read_settings_file
from ottla.cli.main import ottla as command
from ottla.localcluster.ports import HOST, accepts_connections, free_ports
from ottla.localcluster.security_files import SecurityFiles
from ottla.localcluster.waiting import wait_until
from ottla.security.settings import PLAINTEXT, Security

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## From an open cluster to a secured one\n")[1].split("\n## ")[0]
FILES = dict(re.findall(r"```properties\n# a.properties, (.*)\n((?s:.*?))```", SECTION))
BLOCKS = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)
HOSTS = ("a.example.org", "b.example.org", "c.example.org")
PAGE_PORTS = ("9092", "9093", "9094")  # open, among brokers, for clients
OPEN = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
PARTITIONS = 3


class Machines:
    """Three brokers with files of settings, as on three machines. They run in this process: a start then costs a
    tenth of a second of the processor, and there are fifteen.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ports = free_ports(HOST, len(HOSTS) * len(PAGE_PORTS))
        places = [(host, port) for host in HOSTS for port in PAGE_PORTS]
        self._ports = dict(zip(places, ports, strict=True))
        self.brokers: dict[int, BrokerThread] = {}

    def bootstrap(self, page_port: str) -> str:
        return ",".join(f"{HOST}:{self._ports[host, page_port]}" for host in HOSTS)

    def adapted(self, text: str) -> str:
        """A text of the page, with the addresses and the directories of this test."""
        for (host, page_port), port in self._ports.items():
            text = text.replace(f"{host}:{page_port}", f"{HOST}:{port}")
        text = re.sub(r"--host \S+ ?", "", text)  # all are this machine, which certificates name anyway
        return text.replace("/etc/ottla", str(self.directory))

    def write(self, title: str) -> None:
        """Write the file of each broker, as the page has it for the first."""
        for node_id, host in enumerate(HOSTS, 1):
            lines = FILES[title].replace("node.id=1", f"node.id={node_id}").splitlines(keepends=True)
            text = "".join(
                line.replace(HOSTS[0], host) if line.startswith("listeners=") else line for line in lines
            )
            text = text.replace("/var/lib/ottla", str(self.directory / f"data-{node_id}"))
            own = "".join(f"{name}={value}\n" for name, value in OPEN.items())
            self._file(node_id).write_text(self.adapted(text) + own, encoding="utf-8")

    def start(self, *node_ids: int) -> None:
        """Start brokers together with all files that there are, and wait until they serve."""
        with ThreadPoolExecutor(len(node_ids)) as pool:
            started = list(pool.map(self._started, node_ids))
        self.brokers |= dict(zip(node_ids, started, strict=True))

    def _started(self, node_id: int) -> BrokerThread:
        shared = self.directory / "security" / "broker.properties"
        files = [file for file in (shared, self._file(node_id)) if file.exists()]
        settings = {name: value for file in files for name, value in read_settings_file(str(file)).items()}
        return BrokerThread(self.directory / f"data-{node_id}", settings)

    def stop(self) -> None:
        for broker in self.brokers.values():
            broker.stop()

    def roll(self, title: str, bootstrap: str, security: Security) -> None:
        """Restart each broker with its new file; before the next one, wait until all replicas are in sync."""
        self.write(title)
        for node_id, broker in list(self.brokers.items()):
            broker.stop()
            self.start(node_id)
            wait_until(
                lambda: asyncio.run(are_in_sync(bootstrap, security)), "all replicas are in sync", 60.0
            )

    def run(self, words: str) -> None:
        """Run the block of the page that has these words in it, line by line."""
        (block,) = [each for each in BLOCKS if words in each]
        environment: dict[str, str] = {}
        for line in self.adapted(block).replace("\\\n", " ").splitlines():
            program, *arguments = shlex.split(line)
            if program == "export":
                environment |= dict([arguments[0].split("=", 1)])
            else:
                assert program == "ottla", line
                command_line(*arguments, **environment)

    def _file(self, node_id: int) -> Path:
        return self.directory / f"{HOSTS[node_id - 1][0]}.properties"


async def are_in_sync(bootstrap: str, security: Security) -> bool:
    try:
        async with ottla.Admin(bootstrap, security=security, timeout_ms=5_000) as admin:
            partitions = [
                each for topic in await admin.list_topics(include_internal=True) for each in topic.partitions
            ]
    except (ConnectionError, TimeoutError, ottla.KafkaError):
        return False
    return len(partitions) >= PARTITIONS and all(
        each.leader is not None and len(each.isr) == len(HOSTS) for each in partitions
    )


async def may_log_in(address: str, security: Security) -> bool:
    try:
        async with ottla.Admin(address, security=security, timeout_ms=5_000):
            return True
    except ottla.KafkaError:
        return False


class Clients:
    """A producer and a consumer of a group, at work until they are moved to another listener."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self.consumed: list[int] = []
        self._numbers = iter(range(10**9))
        self._is_moving = False

    @contextmanager
    def at_work(self, bootstrap: str, shop: Security, billing: Security) -> Iterator[None]:
        """Produce and consume during the block; at its end every record is delivered, and consumed to the end."""
        self._is_moving = False
        failures: list[BaseException] = []

        def work() -> None:
            try:
                asyncio.run(self._work(bootstrap, shop, billing))
            except BaseException as error:
                failures.append(error)

        thread = Thread(target=work)
        thread.start()
        try:
            begun = len(self.consumed)
            wait_until(lambda: len(self.consumed) > begun or bool(failures), "records flow", 60.0)
            yield
        finally:
            self._is_moving = True
            thread.join(60)
        assert not thread.is_alive()
        assert failures == []

    async def _work(self, bootstrap: str, shop: Security, billing: Security) -> None:
        async with asyncio.TaskGroup() as tasks:
            producing = tasks.create_task(self._produce(bootstrap, shop))
            tasks.create_task(self._consume(bootstrap, billing, producing))

    async def _produce(self, bootstrap: str, security: Security) -> None:
        async with ottla.Producer(bootstrap, security=security, acks="all") as producer:
            while not self._is_moving:
                number = next(self._numbers)
                await producer.send("orders", str(number), partition=number % PARTITIONS)
                self.acknowledged.append(number)
                await asyncio.sleep(0.02)  # enough records to miss some, and time for the brokers to restart

    async def _consume(self, bootstrap: str, security: Security, producing: asyncio.Task[None]) -> None:
        async with ottla.Consumer(
            bootstrap,
            security=security,
            group_id="billing",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,  # a coordinator that moved is noticed, and can be told goodbye
        ) as consumer:
            consumer.subscribe(["orders"])
            while not producing.done() or len(self.consumed) < len(self.acknowledged):
                records = await consumer.poll(timeout_ms=200)
                self.consumed += [int(record.value or b"") for record in records]
            await consumer.commit()


@pytest.mark.timeout(300)  # brokers are restarted twelve times
def test_an_open_cluster_is_secured_without_a_stop_and_without_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the commands find the files of passwords
    machines, clients = Machines(tmp_path), Clients()
    opened, secured = machines.bootstrap("9092"), machines.bootstrap("9094")
    for user in ("shop", "billing"):
        (tmp_path / f"{user}.password").write_text(f"the password of {user}\n")
    with ExitStack() as stack:
        stack.callback(machines.stop)
        machines.write("open")
        machines.start(1, 2, 3)
        command_line("topics", "create", "orders", "--partitions", str(PARTITIONS), "--bootstrap", opened)
        # From now on the metadata log names the voters, and the ports that they have now.
        for change in ("--remove", "--add"):
            # A voter that left has to follow the log again before it is back. An answer may be lost on a busy machine.
            wait_until(lambda: has_changed(opened, change, 3), "a voter leaves, and is back", 90.0)  # noqa: B023
        with clients.at_work(opened, PLAINTEXT, PLAINTEXT):
            machines.run("ottla security init")
            machines.roll("step 1", opened, PLAINTEXT)
            machines.roll("step 2", opened, PLAINTEXT)
            machines.run("ottla users add")
        trusted = tmp_path / "security" / "authority.pem"
        shop, billing = (
            Security(
                protocol="SASL_SSL",
                ca_file=trusted,
                sasl_mechanism="SCRAM-SHA-512",
                username=user,
                password=f"the password of {user}",
            )
            for user in ("shop", "billing")
        )
        for address in secured.split(","):
            for who in (shop, billing):
                wait_until(lambda: asyncio.run(may_log_in(address, who)), "the broker knows the users")  # noqa: B023
        with clients.at_work(secured, shop, billing):
            machines.roll("step 4", opened, PLAINTEXT)
            machines.run("ottla acls add")
            machines.roll("step 5", secured, administrator(tmp_path))
        assert clients.acknowledged == list(range(len(clients.acknowledged)))
        assert Counter(clients.consumed) == Counter(clients.acknowledged), (
            "nothing is lost, nothing comes twice"
        )
        for partition in range(PARTITIONS):
            of_it = [number for number in clients.consumed if number % PARTITIONS == partition]
            assert of_it == sorted(of_it)
        refuse_strangers(machines, tmp_path)


def has_changed(bootstrap: str, change: str, voter: int) -> bool:
    """Remove or add a voter; whether it is done."""
    shown = invoked("cluster", "voters", "--bootstrap", bootstrap, change, str(voter))
    if shown.exit_code == 0:
        return True
    with ottla.blocking.Admin(bootstrap) as admin:
        is_voter = voter in {each.node_id for each in admin.describe_quorum().voters}
    return is_voter == (change == "--add")


def invoked(*arguments: str, **environment: str) -> Result:
    """A command, run in this process."""
    return CliRunner(env=environment).invoke(command, arguments)


def command_line(*arguments: str, **environment: str) -> str:
    shown = invoked(*arguments, **environment)
    assert shown.exit_code == 0, shown.output
    return shown.output


def administrator(directory: Path) -> Security:
    return SecurityFiles(directory).security


def refuse_strangers(machines: Machines, directory: Path) -> None:
    """What the last step leaves: no open port, and nothing for the doctor to find."""
    for address in machines.bootstrap("9092").split(","):
        assert not accepts_connections(int(address.rpartition(":")[2]))
    config = str(directory / "security" / "client.properties")
    assert '"findings": []' in command_line("doctor", "--config", config, "--json")
