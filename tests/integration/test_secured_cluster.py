"""A cluster that `ottla cluster up --secure` started: who gets in, who may do what, and the commands of its owner
(OPS-5).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer
from tests.integration.command_line import ottla as ottla_process
from tests.integration.peer import Peer
from tests.integration.tls_place import METADATA

import ottla
import ottla.testing
from ottla.cli.broker_settings import broker_config
from ottla.cli.main import ottla as command
from ottla.localcluster.cluster import LocalCluster
from ottla.localcluster.launch import running_cluster
from ottla.localcluster.plan.cluster import ClusterOptions
from ottla.localcluster.ports import HOST
from ottla.localcluster.security_files import SecurityFiles
from ottla.localcluster.waiting import wait_until
from ottla.security.settings import Security


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running_cluster(
        tmp_path_factory.mktemp("secured"), ClusterOptions(port=0, is_secure=True)
    ) as started:
        told(started, "topics", "create", "orders", "--partitions", "3")
        yield started


def run(cluster: LocalCluster, *arguments: str) -> Result:
    """A command of the administrator."""
    config = str(SecurityFiles(cluster.data).client_properties)
    return CliRunner().invoke(command, arguments, env={"OTTLA_CONFIG": config})


def told(cluster: LocalCluster, *arguments: str) -> str:
    shown = run(cluster, *arguments)
    assert shown.exit_code == 0, shown.output
    return shown.output


def refused(bootstrap: str, security: Security) -> str:
    async def ask() -> None:
        async with ottla.Admin(bootstrap, security=security, timeout_ms=10_000) as admin:
            await admin.list_topics()

    with pytest.raises((ConnectionError, ottla.KafkaError)) as failed:
        asyncio.run(ask())
    return str(failed.value)


def inner_port(cluster: LocalCluster) -> int:
    port = cluster.state.brokers[0].inner_port
    assert port is not None
    return port


def test_nobody_gets_in_without_a_login_or_a_certificate(cluster: LocalCluster) -> None:
    files = SecurityFiles(cluster.data)
    assert refused(cluster.bootstrap, Security())
    wrong = replace(files.security, password="a guess")
    assert "SASL_AUTHENTICATION_FAILED" in refused(cluster.bootstrap, wrong)
    without = Security(protocol="SSL", ca_file=files.authority)
    assert "client certificate" in refused(f"{HOST}:{inner_port(cluster)}", without)
    for broker in cluster.state.brokers:
        for port in broker.ports:
            with Peer(port) as peer:
                peer.send(*METADATA)
                assert peer.socket.recv(2) == b"\x15\x03", "an alert of TLS, and no answer"


def test_a_certificate_of_the_authority_is_a_login_without_rights(cluster: LocalCluster) -> None:
    files = SecurityFiles(cluster.data)
    certificate, key = files.issue("carol")
    carol = Security(protocol="SSL", ca_file=files.authority, certificate_file=certificate, key_file=key)
    address = f"{HOST}:{inner_port(cluster)}"

    async def seen() -> list[str]:
        async with ottla.Admin(address, security=carol) as admin:
            return [each.name for each in await admin.list_topics()]

    assert asyncio.run(seen()) == []
    told(cluster, "acls", "add", "carol", "describe", "--topic", "orders")
    wait_until(lambda: asyncio.run(seen()) == ["orders"], "the broker knows the right")


def test_a_user_gets_in_and_may_do_what_the_rights_say(cluster: LocalCluster, tmp_path: Path) -> None:
    files = SecurityFiles(cluster.data)
    (tmp_path / "password").write_text("wonderland")
    told(cluster, "users", "add", "alice", "--password-file", str(tmp_path / "password"))
    alice = tmp_path / "alice.properties"
    alice.write_text(
        f"bootstrap.servers={cluster.bootstrap}\nsecurity.protocol=SASL_SSL\n"
        f"ssl.truststore.location={files.authority}\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.username=alice\nsasl.password=wonderland\n"
    )
    produce = ("produce", "orders", "--config", str(alice))

    def produced() -> CompletedProcess[str]:
        return ottla_process(*produce, stdin="coffee\n")

    wait_until(lambda: "AUTHORIZATION_FAILED" in produced().stderr, "alice gets in, and may nothing")
    told(cluster, "acls", "add", "alice", "write", "--topic", "orders")
    wait_until(lambda: produced().returncode == 0, "alice may produce")
    assert "coffee" in told(cluster, "consume", "orders")


def test_librdkafka_reaches_it_with_the_settings_of_the_administrator(cluster: LocalCluster) -> None:
    files = SecurityFiles(cluster.data)
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(files.authority),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": files.security.password,
    }
    told(cluster, "topics", "create", "tea")
    producer = Producer(settings)
    producer.produce("tea", b"earl grey")
    assert producer.flush(20) == 0
    consumer = Consumer({**settings, "group.id": "drinkers", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["tea"])
        record = consumer.poll(20)
        assert record is not None
        assert (record.error(), record.value()) == (None, b"earl grey")
    finally:
        consumer.close()


def test_the_owner_kills_starts_grows_and_shrinks_it_as_any_other(cluster: LocalCluster) -> None:
    data = ("--data", str(cluster.data))
    assert "Killed broker 2" in told(cluster, "cluster", "kill", "2", *data)
    assert "Broker 2 started" in told(cluster, "cluster", "start", "2", *data)
    assert "Added broker 4" in told(cluster, "cluster", "add", "--rebalance", *data)
    document = json.loads(told(cluster, "cluster", "status", "--json", *data))
    assert [each["node_id"] for each in document["brokers"]] == [1, 2, 3, 4]
    assert document["problem"] is None
    assert "Removed broker 4" in told(cluster, "cluster", "drain", "4", "--remove", *data)
    assert "node 3: voter" in told(cluster, "cluster", "voters", *data)
    assert "nothing to recover" in told(cluster, "cluster", "recover", *data)


def test_a_cluster_by_its_address_needs_the_file_and_the_environment_alone_does_not_lead_there(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    config = ("--config", str(SecurityFiles(cluster.data).client_properties))
    elsewhere = ("--data", str(tmp_path))
    assert "3 brokers" in told(cluster, "cluster", "status", "--bootstrap", cluster.bootstrap)
    assert "3 brokers" in told(cluster, "cluster", "status", *config, *elsewhere)
    shown = run(cluster, "cluster", "drain", "2", *elsewhere)
    assert shown.exit_code == 1
    assert "There is no cluster" in shown.stderr


# ---- the doctor, at a running cluster


def findings(cluster: LocalCluster) -> list[str]:
    shown = run(cluster, "doctor", "--bootstrap", cluster.bootstrap, "--json")
    (examined,) = json.loads(shown.stdout)["examined"]
    return [f"{each['problem']} | {each['advice']}" for each in examined["findings"]]


def test_the_doctor_finds_it_well_until_a_right_is_for_everybody(cluster: LocalCluster) -> None:
    assert findings(cluster) == []
    told(cluster, "acls", "add", "*", "read", "--topic", "*")
    wait_until(lambda: len(findings(cluster)) == 1, "it is found")
    (found,) = findings(cluster)
    remedy = "acls remove --principal * --operation read --topic *"
    assert f"ottla {remedy}" in found.replace("'", "")
    told(cluster, *remedy.split())
    wait_until(lambda: findings(cluster) == [], "the command removed it")


def test_the_doctor_finds_an_open_broker_on_every_interface() -> None:
    settings = {
        "listeners": "PLAINTEXT://0.0.0.0:0",
        "advertised.listeners": f"PLAINTEXT://{HOST}:0",
        "super.users": "User:ANONYMOUS",
    }
    with ottla.testing.broker(settings=settings) as broker:
        shown = ottla_process("doctor", "--bootstrap", broker.bootstrap)
    assert shown.returncode == 1, shown.stderr
    assert "is open: whoever reaches it may read, write and delete everything" in shown.stdout
    assert "is among super.users" in shown.stdout


def test_certificates_are_loaded_by_command_and_unusable_ones_are_told(cluster: LocalCluster) -> None:
    files = SecurityFiles(cluster.data)
    before = ssl.get_server_certificate((HOST, cluster.port_of(2)))
    files.renew()
    said = told(cluster, "security", "reload")
    assert said == "".join(f"Broker {each} loaded its certificates.\n" for each in (1, 2, 3))
    after = ssl.get_server_certificate((HOST, cluster.port_of(2)))
    assert (after != before, after) == (True, (files.directory / "broker.pem").read_text())
    key = (files.directory / "broker.key").read_text()
    (files.directory / "broker.key").write_text("spoilt")
    try:
        shown = run(cluster, "security", "reload", "--broker", "2")
    finally:
        (files.directory / "broker.key").write_text(key)
    assert shown.exit_code == 1
    assert "could not load the certificates of broker 2: The file" in shown.stderr
    assert "holds no private key in PEM form" in shown.stderr
    assert ssl.get_server_certificate((HOST, cluster.port_of(2))) == after, "the old one stays in use"


def test_another_file_needs_a_restart_and_a_reload_leaves_no_setting_behind(cluster: LocalCluster) -> None:
    files = SecurityFiles(cluster.data)
    config = ("--command-config", str(files.client_properties))
    alter = ("configs", "alter", "--broker", "1", *config, "--config")
    shown = run(cluster, *alter, f"ottla.ssl.certificate.file={files.directory / 'admin.pem'}")
    assert shown.exit_code == 1
    assert "cannot change while the broker runs" in shown.stderr
    own = f"ottla.ssl.certificate.file={files.directory / 'broker.pem'}"
    told(cluster, *alter, own)
    described = told(cluster, "configs", "describe", "--broker", "1", "--json", *config)
    sources = {each["name"]: each["source"] for each in json.loads(described)["1"]}
    assert sources["ottla.ssl.certificate.file"] == "static_broker"


def test_renewed_certificates_are_in_use_without_a_restart_and_the_doctor_sees_that_they_expire(
    cluster: LocalCluster,
) -> None:
    files = SecurityFiles(cluster.data)
    port = cluster.port_of(1)
    before = ssl.get_server_certificate((HOST, port))
    data = ("--data", str(cluster.data))
    told(cluster, "security", "renew", *data, "--days", "7")
    for broker in cluster.state.brokers:
        for each in broker.ports:
            wait_until(
                lambda each=each: ssl.get_server_certificate((HOST, each)) != before,  # type: ignore[misc]
                "the new certificate is in use",
            )
    assert ssl.get_server_certificate((HOST, port)) == (files.directory / "broker.pem").read_text()
    found = findings(cluster)
    assert len(found) == 3
    assert "expires in 6 days" in found[0]
    assert "ottla security renew" in found[0]
    wait_until(lambda: "expires in 6 days" in cluster.broker_said(1), "the broker's log says so as well")
    assert "3 brokers" in told(cluster, "cluster", "status", *data)


# ---- docs/security.md

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text(encoding="utf-8")


def blocks(title: str, language: str) -> list[str]:
    section = PAGE.split(f"\n{title}\n")[1].split("\n## ")[0].split("\n### ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def shell(directory: Path, script: str) -> str:
    """Run the lines of a page as a shell does, in a directory."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_two_commands_of_the_page_give_a_secured_cluster(tmp_path: Path) -> None:
    script = "".join(blocks("## A secured cluster in two commands", "sh"))
    assert script.count("ottla cluster up --secure --detach") == 1
    try:
        said = shell(tmp_path, script.replace("--detach", "--detach --port 0"))
    finally:
        shell(tmp_path, "ottla cluster down")
    assert "The cluster is ready: 3 brokers" in said
    assert "There are no topics." in said
    assert "Broker 3 loaded its certificates." in said


def test_the_files_of_several_machines_are_settings_of_a_broker(tmp_path: Path) -> None:
    init, serve = blocks("### Several machines", "sh")
    shell(tmp_path, init.replace("/etc/ottla", str(tmp_path)))
    (own,) = blocks("### Several machines", "properties")
    (tmp_path / "a.properties").write_text(own)
    files = re.findall(r"--config (\S+)", serve.replace("/etc/ottla", str(tmp_path)))
    config = broker_config(files, ())
    assert config.node.advertised_listener.protocol == "SSL"
    assert {"a.example.org", "b.example.org"} < set(SecurityFiles(tmp_path).hosts())
