"""What is wrong with a cluster, decided from what was asked."""

from __future__ import annotations

from ottla.client.admin.checks.cluster_check import (
    check_controller,
    check_damage,
    check_log_dirs,
    check_newest_record,
    check_partition,
)
from ottla.client.admin.checks.findings import Examination, Severity
from ottla.client.requests.brokers import LogDir
from ottla.client.requests.metadata import PartitionInfo
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition

T0 = TopicPartition("t", 0)
ALIVE = {1, 2, 3}


def partition(leader: int | None, isr: tuple[int, ...], offline: tuple[int, ...] = ()) -> PartitionInfo:
    return PartitionInfo(0, leader, 5, (1, 2, 3), isr, offline)


def severities(report: Examination) -> list[Severity]:
    return [each.severity for each in report.findings]


def test_a_partition_in_sync_is_no_finding() -> None:
    report = Examination("here")
    assert check_partition(T0, partition(1, (1, 2, 3)), ALIVE, report)
    assert report.findings == []


def test_a_partition_without_a_leader_is_an_error_with_a_command() -> None:
    report = Examination("here")
    assert not check_partition(T0, partition(None, (3,), (3,)), {1, 2}, report)
    assert severities(report) == [Severity.ERROR]
    assert "ottla cluster recover" in report.findings[0].advice


def test_a_leader_that_is_not_alive_is_none() -> None:
    report = Examination("here")
    assert not check_partition(T0, partition(9, (9,)), ALIVE, report)


def test_replicas_that_lag_are_a_warning_and_damaged_ones_an_error() -> None:
    report = Examination("here")
    assert check_partition(T0, partition(1, (1,), (2,)), ALIVE, report)
    assert severities(report) == [Severity.ERROR, Severity.WARNING]
    assert "[3] are not in sync" in report.findings[1].problem


def test_disks_that_fail_or_are_nearly_full_are_found() -> None:
    report = Examination("here")
    broken = LogDir("/a", KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "io"), -1, -1, {})
    check_log_dirs(1, [broken, LogDir("/b", None, 1_000, 10, {}), LogDir("/c", None, 1_000, 900, {})], report)
    assert severities(report) == [Severity.ERROR, Severity.WARNING]


def test_damage_and_clocks_and_controllers() -> None:
    report = Examination("here")
    check_damage(1, "0", report)
    check_damage(1, None, report)
    check_newest_record(T0, 4, 10_000, 9_000, report)
    check_controller(1, ALIVE, report)
    assert report.findings == []
    check_damage(1, "2", report)
    check_newest_record(T0, 4, 20_000, 9_000, report)
    check_controller(9, ALIVE, report)
    check_controller(None, (), report)
    assert severities(report) == [Severity.ERROR, Severity.WARNING, Severity.WARNING, Severity.ERROR]
