"""A warehouse in a bucket, Iceberg with a Glue catalog and Delta: an S3 and a Glue that moto serves over HTTP.

The servers need more time than all other tests of the lake together: `make compat` runs it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import boto3  # type: ignore[import-untyped]
import pytest
from tests.integration.lake_place import LakePlace, all_of, orders

import ottla.testing
from ottla.lake.comparison import compare
from ottla.lake.maintenance import compact, expire
from ottla.lake.topic import Cluster
from ottla.localcluster.ports import accepts_connections, free_port
from ottla.localcluster.waiting import wait_until

pytestmark = pytest.mark.compat


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an S3 and a Glue with a bucket `lake`, in a process of their own: delta-rs waits for answers
    without letting other threads of its process run.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        wait_until(lambda: accepts_connections(port), "moto's server")
        boto3.client("s3", endpoint_url=url).create_bucket(Bucket="lake")
        yield url
        server.terminate()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # boto3 leaves its sockets to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_a_table_in_a_bucket_is_written_read_and_maintained(cloud: str, table_format: str) -> None:
    with ottla.testing.broker() as broker:
        place = LakePlace(broker, "s3://lake/warehouse")
        catalog = {
            "type": "glue",
            "glue.endpoint": cloud,
            "warehouse": "s3://lake/warehouse",
            "s3.endpoint": cloud,
            "s3.region": "us-east-1",
        }
        is_iceberg = table_format == "iceberg"
        definition = place.enable(format=table_format, value="json", catalog=catalog if is_iceberg else {})
        place.produce([*orders(0, 30), b"junk"])
        assert sum(each.rows for each in place.writer(records_per_commit=12).run()) == 30
        place.produce(orders(31, 41))
        assert len(place.rows()) == 40
        assert compact(place.warehouse, definition).files_after == 2
        assert expire(place.warehouse, definition, 2**42, 2**42) > 0
        assert all(each.is_equal for each in compare(place.warehouse, Cluster(broker.bootstrap), place.topic))
        assert place.rows(where="partition = 0 AND offset < 15") == [
            each for each in all_of(30) if each[0] == 0
        ]
