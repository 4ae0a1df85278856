"""protoc itself, which the dev dependency grpcio-tools brings: the judge of what a .proto text means."""

from __future__ import annotations

import tempfile
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc


def compiled(text: str, **imports: str) -> FileDescriptorProto:
    """The descriptor that protoc makes of a text; imports by their names without .proto."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in {"own": text, **imports}.items():
            (Path(folder) / f"{name}.proto").write_text(content)
        out = Path(folder) / "out"
        well_known = str(Path(grpc_tools.__file__).parent / "_proto")
        code = protoc.main(["protoc", f"-I{folder}", f"-I{well_known}", f"-o{out}", f"{folder}/own.proto"])
        assert code == 0
        return FileDescriptorSet.FromString(out.read_bytes()).file[-1]
