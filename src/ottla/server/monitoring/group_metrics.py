"""Metrics of the groups and transactions that this node coordinates."""

from collections import Counter
from collections.abc import Iterator

from ottla.server.monitoring.survey import Survey, extreme, summed
from ottla.telemetry.families import Family, Labels, counters, gauge, gauges


def group_families(survey: Survey) -> Iterator[Family]:
    """Groups: members, states, rebalances, and how far they are."""
    states = Counter(row.state for row in survey.groups)
    yield gauges("ottla_groups", "Groups by state.", [((("state", name),), n) for name, n in states.items()])
    members: Counter[str] = Counter()
    rebalances: Counter[str] = Counter()
    for row in survey.groups:
        members[row.group] += row.members
        rebalances[row.group] += row.rebalances
    yield gauges("ottla_group_members", "Members of a group.", _by_group(members))
    yield counters(
        "ottla_group_rebalances", "Rebalances since this node coordinates the group.", _by_group(rebalances)
    )
    yield gauges(
        "ottla_group_lag_records",
        "Records between a committed offset and the high watermark, of partitions with a replica on this node.",
        summed((_own(row.labels), row.lag_records) for row in survey.offsets if row.lag_records is not None),
    )
    yield gauges(
        "ottla_group_records_until_deletion",
        "Records between the start of the log and a committed offset: below 0, records were deleted unread.",
        summed(
            (_own(row.labels), row.until_deletion_records)
            for row in survey.offsets
            if row.until_deletion_records is not None
        ),
    )
    yield gauges(
        "ottla_group_lag_seconds",
        "For how long the first record that a group has not read has waited; 0 if it has read all.",
        extreme(
            (
                (_own(row.labels), row.waiting_ms / 1000)
                for row in survey.offsets
                if row.waiting_ms is not None
            ),
            max,
        ),
        unit="seconds",
    )
    yield gauges(
        "ottla_group_until_deletion_seconds",
        "How long retention by age leaves the first record that a group has not read, at the least.",
        extreme(
            (
                (_own(row.labels), row.deletable_in_ms / 1000)
                for row in survey.offsets
                if row.deletable_in_ms is not None
            ),
            min,
        ),
        unit="seconds",
    )


def transaction_families(survey: Survey) -> Iterator[Family]:
    """Transactions that are open, or being ended."""
    states = Counter(row.state for row in survey.transactions)
    yield gauges(
        "ottla_transactions",
        "Transactions by state, of those that are open or being ended.",
        [((("state", name),), count) for name, count in states.items()],
    )
    yield gauge("ottla_transactional_ids", "Transactional ids that are known.", survey.transactional_ids)
    oldest_ms = max((row.open_ms for row in survey.transactions), default=0)
    yield gauge(
        "ottla_transaction_oldest_seconds",
        "The age of the oldest transaction that is open or being ended.",
        oldest_ms / 1000,
        unit="seconds",
    )


def _by_group(counts: Counter[str]) -> Iterator[tuple[Labels, int]]:
    for group, count in counts.items():
        yield (("group", group),), count


def _own(labels: Labels) -> Labels:
    """The labels by our name for groups."""
    return (("group", labels[0][1]), *labels[1:])
