from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.producer.machine.partitioners import murmur2
from ottla.spark.sink.placing import Placing, hashes

KEYS = st.lists(st.binary(max_size=40) | st.binary(min_size=500, max_size=530), min_size=1, max_size=50)


@settings(deadline=None)
@given(KEYS)
def test_hashes_are_those_of_every_kafka_client(keys: list[bytes]) -> None:
    assert hashes(pa.array(keys, pa.binary())).tolist() == [murmur2(key) for key in keys]


def test_hashes_of_a_slice_are_those_of_its_keys() -> None:
    keys = [b"one", b"two", b"three", b"four"]
    assert hashes(pa.array(keys, pa.binary()).slice(1, 2)).tolist() == [murmur2(b"two"), murmur2(b"three")]


def test_a_row_goes_to_the_partition_it_names_else_to_that_of_its_key() -> None:
    keys = pa.array([b"a", b"a", None, b"b"], pa.binary())
    named = pa.array([None, 5, 6, None], pa.int32())
    places = Placing("t", 7).place(named, keys, np.full(4, 10), 1_000)
    by_key = [(murmur2(key) & 0x7FFFFFFF) % 7 for key in (b"a", b"b")]
    assert places.tolist() == [by_key[0], 5, 6, by_key[1]]


def test_rows_without_a_key_stick_together_for_as_long_as_a_batch_takes_them() -> None:
    placing = Placing("t", 3, first=2)
    assert placing.place(None, None, np.full(6, 10), 20).tolist() == [2, 2, 0, 0, 1, 1]
    assert placing.place(None, None, np.full(2, 10), 20).tolist() == [2, 2]


@pytest.mark.parametrize("wrong", [-1, 3, 2**31 - 1])
def test_a_partition_that_is_not_there_is_refused_in_words(wrong: int) -> None:
    named = pa.array([0, wrong], pa.int32())
    with pytest.raises(ValueError) as refused:
        Placing("orders", 3).place(named, None, np.full(2, 10), 1_000)
    assert str(refused.value) == (
        f'partition {wrong} is given with a record for topic "orders", which has 3: it must be null or from 0 to 2'
    )
