"""The gateway by gRPC clients that protoc generated for Go and Java: the consumer of the source document."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from bench.apache.maven import CACHE, CannotFetchError, dependency, fetch_jars
from tests.integration.gateway_place import GatewayPlace, gateway_place

import ottla.testing
from ottla.testing.embedded_broker import EmbeddedBroker

pytestmark = pytest.mark.compat
PROGRAMS = Path(__file__).parent / "gateway"
PROTO_ROOT = str(files("ottla.gateway.grpc").joinpath("proto"))
PROTO = "ottla/v1/gateway.proto"
GO_PLUGINS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2",
)
GRPC_JAVA, PROTOBUF_JAVA, PLUGIN_JAVA = "1.85.1", "4.36.2", "1.68.1"
# Programs that Maven Central has beside the jars; grpcio-tools' own protoc cannot write Java.
JAVA_PROGRAMS = [
    f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    "<type>exe</type><classifier>linux-x86_64</classifier></dependency>"
    for group, name, version in (
        ("io.grpc", "protoc-gen-grpc-java", PLUGIN_JAVA),
        ("com.google.protobuf", "protoc", PROTOBUF_JAVA),
    )
]
EXPECTED = {
    "offsets": list(range(100)),
    "heard": [str(number) for number in range(100)],
    "missing": "UNKNOWN_TOPIC_OR_PARTITION",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker() as started:
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(broker.bootstrap, grpc_listen="127.0.0.1:0") as place:
        yield place


def run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=cwd, env=env)
    assert done.returncode == 0, f"{command[0]}: {(done.stdout + done.stderr)[-2000:]}"
    return done.stdout


def protoc(*options: str, path: str = "") -> None:
    environment = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}
    run([sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO_ROOT}", *options, PROTO], env=environment)


def test_a_generated_go_client_consumes_as_the_source_document_does(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    if shutil.which("go") is None:
        pytest.skip("NO GO: the gateway is not called by a generated Go client")
    home = CACHE / "grpc-go"
    shutil.copytree(PROGRAMS / "go", home, dirs_exist_ok=True)
    for plugin in GO_PLUGINS:
        run(["go", "install", plugin], env={**os.environ, "GOBIN": str(home / "bin")})
    protoc(f"--go_out={home}", f"--go-grpc_out={home}", path=str(home / "bin"))
    run(["go", "build", "-o", "caller", "."], cwd=home)
    topic = broker.create_topic("from-go")
    said = run([str(home / "caller"), f"127.0.0.1:{gateway.gateway.grpc_port}", topic])
    assert json.loads(said) == EXPECTED


def test_a_generated_java_client_produces_and_consumes(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    if shutil.which("javac") is None:
        pytest.skip("NO JAVA COMPILER: the gateway is not called by a generated Java client")
    home = CACHE / "grpc-java"
    needed = [
        dependency("io.grpc", f"grpc-{each}", GRPC_JAVA) for each in ("netty-shaded", "protobuf", "stub")
    ]
    needed.append(dependency("com.google.protobuf", "protobuf-java", PROTOBUF_JAVA))
    needed.append(dependency("javax.annotation", "javax.annotation-api", "1.3.2"))
    needed += JAVA_PROGRAMS
    try:
        jars = fetch_jars("gRPC for Java", home, needed)
    except CannotFetchError as error:
        pytest.skip(f"NO GRPC FOR JAVA: {error}")
    plugin = jars / f"protoc-gen-grpc-java-{PLUGIN_JAVA}-linux-x86_64.exe"
    compiler = jars / f"protoc-{PROTOBUF_JAVA}-linux-x86_64.exe"
    for program in (plugin, compiler):
        program.chmod(0o755)
    sources, classes = home / "sources", home / "classes"
    sources.mkdir(exist_ok=True)
    outputs = [f"--java_out={sources}", f"--grpc-java_out={sources}"]
    run([str(compiler), f"-I{PROTO_ROOT}", f"--plugin=protoc-gen-grpc-java={plugin}", *outputs, PROTO])
    written = [str(each) for each in sources.rglob("*.java")]
    caller = str(PROGRAMS / "java" / "GrpcCaller.java")
    run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), *written, caller])
    topic = broker.create_topic("from-java")
    where = f"127.0.0.1:{gateway.gateway.grpc_port}"
    said = run(["java", "-Xmx256m", "-cp", f"{jars}/*:{classes}", "GrpcCaller", where, topic])
    assert json.loads(said.splitlines()[-1]) == EXPECTED
