"""A search over partitions that lie on several brokers, whose answers come one after the other."""

from __future__ import annotations

import json

from tests.integration.console_caller import API, ConsoleCaller
from tests.integration.gateway_place import gateway_place

import ottla.testing


def test_partitions_of_several_brokers_are_read_to_their_ends() -> None:
    with ottla.testing.cluster(brokers=3) as cluster, gateway_place(cluster.bootstrap) as place:
        cluster.create_topic("spread", partitions=6)
        records = [{"value": {"n": n}, "partition": n % 6} for n in range(600)]
        assert place.call("POST", "/topics/spread", {"records": records}).status == 200
        console = ConsoleCaller(place)
        exported = place.call("GET", f"{API}/topics/spread/export?limit=1000").body.splitlines()
        assert sorted(json.loads(json.loads(each)["value"])["n"] for each in exported) == list(range(600))
        found = console.get("/topics/spread/records", where="value.n~^59.$", limit=500)
        assert sorted(each["value"]["n"] for each in found["records"]) == list(range(590, 600))
        nothing = console.get("/topics/spread/records", where="not there")
        assert (nothing["records"], nothing["scanned"], nothing["cursor"]) == ([], 600, None)
