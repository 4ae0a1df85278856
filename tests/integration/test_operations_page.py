"""docs/operations.md: the files to deploy can be used, backups can be served, restarts lose nothing."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import threading
from pathlib import Path

import yaml

import ottla
import ottla.blocking
import ottla.testing
from ottla.config import BrokerConfig

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "examples" / "deploy"
FIRST = ottla.TopicPartition("orders", 0)


def settings_in(command: str) -> BrokerConfig:
    """The settings of an `ottla serve`, as the broker reads them."""
    words = shlex.split(command.replace("\\\n", " "))
    given = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    return BrokerConfig.from_properties(dict(each.split("=", 1) for each in given))


def test_the_unit_of_systemd_starts_a_broker_and_gives_it_time_to_stop() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "ottla.service")
    service = unit["Service"]
    assert re.match(r"/opt/ottla/bin/ottla serve --config \S+ --data /var/lib/ottla ", service["ExecStart"])
    assert (service["KillSignal"], service["Restart"]) == ("SIGTERM", "on-failure")
    assert int(service["TimeoutStopSec"]) >= 30
    assert service["ReadWritePaths"] in service["ExecStart"]


def test_the_container_file_serves_to_others_and_asks_for_its_health() -> None:
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    steps = {line.split()[0]: line for line in lines if line and not line.startswith("#")}
    assert next(iter(steps)) == "FROM"
    assert {"USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "STOPSIGNAL"} <= set(steps)
    entry = yaml.safe_load(steps["ENTRYPOINT"].removeprefix("ENTRYPOINT "))
    assert entry[:2] == ["ottla", "serve"]
    assert "0.0.0.0:9644" in entry
    assert "/health/ready" in steps["HEALTHCHECK"]


def test_the_manifest_of_kubernetes_is_whole_and_its_brokers_find_each_other() -> None:
    parts = {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}
    assert set(parts) == {"Service", "PodDisruptionBudget", "StatefulSet"}
    brokers = parts["StatefulSet"]["spec"]
    (broker,) = brokers["template"]["spec"]["containers"]
    labels = brokers["template"]["metadata"]["labels"]
    assert brokers["selector"]["matchLabels"] == labels == parts["Service"]["spec"]["selector"]
    config = settings_in(broker["args"][0].replace("$HOSTNAME", "ottla-0"))
    assert len(config.node.voters) == brokers["replicas"] == 3
    assert all(
        str(voter).endswith(".ottla:9092") or voter.host.endswith(".ottla") for voter in config.node.voters
    )
    assert config.topics.min_insync_replicas == 2
    ports = {each["name"] for each in broker["ports"]}
    assert {each["name"] for each in parts["Service"]["spec"]["ports"]} == ports
    mounts = {each["name"] for each in broker["volumeMounts"]}
    assert mounts == {each["metadata"]["name"] for each in brokers["volumeClaimTemplates"]}


def test_a_copy_of_a_stopped_brokers_directory_is_a_broker(tmp_path: Path) -> None:
    with ottla.testing.broker(data=tmp_path / "data") as broker:
        with ottla.blocking.Producer(broker.bootstrap) as producer:
            for number in range(50):
                producer.send_soon("orders", str(number), partition=0)
        with ottla.blocking.Admin(broker.bootstrap) as admin:
            ottla.succeeded(admin.alter_group_offsets("billing", {FIRST: ottla.CommittedOffset(20)}))
        broker.stop()
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
        broker.start()
        with ottla.blocking.Admin(broker.bootstrap) as admin:
            ottla.succeeded(admin.delete_topics(["orders"]))
    with ottla.testing.broker(data=tmp_path / "copy") as restored:
        assert [each.value for each in restored.records("orders")] == [b"%d" % number for number in range(50)]
        with ottla.blocking.Admin(restored.bootstrap) as admin:
            committed = admin.list_group_offsets("billing")[FIRST]
        assert isinstance(committed, ottla.CommittedOffset)
        assert committed.offset == 20


def test_a_rolling_restart_under_a_producer_loses_nothing() -> None:
    sent: list[int] = []
    stopping = threading.Event()
    with ottla.testing.cluster(3) as cluster:
        cluster.create_topic("orders", replication_factor=3, configs={"min.insync.replicas": "2"})

        def write() -> None:
            with ottla.blocking.Producer(cluster.bootstrap) as producer:
                while not stopping.is_set():
                    producer.send("orders", str(len(sent)))
                    sent.append(len(sent))

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for node_id in (1, 2, 3):
                before = len(sent)
                cluster.stop(node_id)
                cluster.start(node_id)
                cluster.wait_in_sync("orders")
                assert writer.is_alive()
                assert len(sent) >= before
        finally:
            stopping.set()
            writer.join(60)
        found = [int(each.value or b"") for each in cluster.records("orders")]
    assert sent
    assert found == list(range(len(found)))
    assert len(found) >= len(sent)
