"""The seed that found each bug when it was last looked for, in a story with the bug's own faults.

Seeds drift when code changes: the search tries the known one first, and then others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FOUND_BY: Final[Mapping[str, int]] = {
    "watermark_of_the_committed_isr": 5,
    "new_leader_commits_what_it_finds": 3,
    "expansion_before_it_has_caught_up": 3,
    "back_off_without_end": 3,
    "new_leader_in_the_old_epoch": 4,
    "snapshot_forgets_the_leader_epoch": 4,
    "producer_ids_are_given_twice": 3,
    "acknowledged_before_the_watermark": 3,
    "watermark_goes_on_in_the_next_leadership": 3,
    "truncation_by_watermark": 1,
    "new_session_without_what_was_asked_before": 3,
    "truncation_is_not_carried_out": 3,
    "lane_ends_with_its_first_error": 5,
    "append_is_no_news_to_followers": 1,
    "told_records_are_no_news_any_more": 1,
    "proposals_are_sent_once": 3,
    "commit_answered_before_it_is_replicated": 3,
    "shard_begins_without_its_log": 5,
    "deleted_topic_takes_all_offsets_with_it": 3,
    "tombstone_of_a_group_takes_its_offsets": 3,
    "metadata_is_not_flushed": 4,
    "controller_that_was_replaced_decides_on": 3,
    "producer_id_is_given_twice": 5,
    "repeated_request_is_not_checked": 4,
    "consumers_session_keeps_its_old_offset": 1,
    "follower_keeps_no_producer_state": 4,
    "duplicate_is_appended_again": 3,
    "gap_in_a_sequence_is_accepted": 3,
    "failed_write_is_answered_as_success": 3,
    "flush_forgets_new_names": 2,
    "torn_tail_is_kept": 4,
    "retry_changes_the_sequence": 3,
    "lost_answer_begins_a_new_epoch": 1,
    "lost_answer_is_success": 4,
    "timed_out_request_is_success": 1,
    "retried_batch_goes_to_the_end_of_the_line": 1,
    "answers_are_given_to_the_wrong_batches": 3,
    "position_moves_with_the_fetch": 1,
    "first_record_after_a_position_is_skipped": 4,
    "whole_batches_are_handed_out_again": 3,
    "error_that_passes_resets_the_position": 3,
    "session_is_not_told_of_a_new_offset": 3,
    "blocked_reader_is_never_unblocked": 1,
    "busy_broker_is_busy_for_ever": 3,
    "reader_stands_in_line_once": 3,
    "records_beyond_the_limit_are_dropped": 3,
    "last_partition_goes_to_nobody": 5,
    "new_partitions_are_not_divided": 3,
}
