"""Bugs in `ottla.raft` and `ottla.server.quorum`: votes, the metadata log, commands, replay, membership."""

from tests.simulation.bugs.bug import Bug, Edit

from ottla.log.directory import LogDirectory
from ottla.raft import election, log_view
from ottla.raft.following import Following
from ottla.raft.leadership import Leadership
from ottla.raft.node import Node
from ottla.raft.voters import VoterSet
from ottla.server.quorum.broker_membership import Membership
from ottla.server.quorum.commands import Commands
from ottla.server.quorum.member import QuorumMember
from ottla.server.quorum.metadata_log import MetadataLog
from ottla.server.quorum.producer_ids import ProducerIds
from ottla.server.quorum.quorum import Quorum
from ottla.server.quorum.replay import MetadataReplay
from ottla.server.quorum.state_file import QuorumStateFile
from ottla.server.quorum.vote_writer import VoteWriter

BUGS = (
    # ---- votes
    Bug(
        "vote_is_not_written_down",
        "A voter forgets its epoch and its vote with its process.",
        Edit(Node.memory_changed, "if self.is_proven and not self._is_changed:", "if False:"),
        faults=("kill", "kill-two", "cut"),
    ),
    Bug(
        "vote_file_is_not_written",
        "The shell says that the vote is on disk, and has not written it.",
        Edit(
            VoteWriter.write,
            "loop.run_in_executor(self._thread, self._file.write, effect.state)",
            "loop.run_in_executor(self._thread, str)",
        ),
        faults=("kill", "kill-two", "cut-leader"),
    ),
    Bug(
        "vote_is_said_before_it_is_written",
        "A vote leaves while its file is still being written.",
        Edit(Node._say, "if self.is_persisted:", "if True:"),
        faults=("kill-all", "slow-disk", "cut"),
    ),
    Bug(
        "vote_is_written_and_not_synced",
        "A vote is said when its file is written, and a loss of power takes the file back.",
        Edit(QuorumStateFile.write, "render(state))", "render(state), sync=False)"),
        faults=("power-all", "kill"),
    ),
    Bug(
        "voter_votes_twice",
        "A voter grants a vote in an epoch in which it voted for another.",
        Edit(
            election.grants,
            "return node.leader_id is None and node.voted in (None, vote.candidate)",
            "return True",
        ),
        Edit(Node.vote_for, "assert self.voted in (None, candidate),", "assert True,"),
        faults=("kill", "kill-two", "cut-leader"),
    ),
    Bug(
        "log_of_a_candidate_is_not_compared",
        "A candidate whose log lacks committed records is elected.",
        Edit(
            log_view.is_up_to_date,
            "return (last_epoch, end_offset) >= (log.last_epoch, log.log_end_offset)",
            "return True",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "voter_without_memory_votes",
        "A voter whose disk was lost votes at once.",
        Edit(
            Node.__init__,
            "self.is_proven = memory is not None",
            "self.is_proven = identity.node_id in voters",
        ),
        faults=("wipe-any", "kill-controller"),
    ),
    # ---- the metadata log
    Bug(
        "watermark_without_majority",
        "Metadata is committed when one voter has it.",
        Edit(VoterSet.reached_by_majority, "[self.majority - 1]", "[0]"),
        faults=("cut-leader",),
    ),
    Bug(
        "watermark_of_an_older_epoch",
        "A new leader of the quorum commits records of older epochs by counting them.",
        Edit(Leadership.commit, "offset <= self.epoch_start_offset or not", "not"),
        faults=("cut-leader",),
    ),
    Bug(
        "divergence_of_metadata_is_not_noticed",
        "A follower of the quorum keeps records that its leader does not have.",
        Edit(
            log_view.judge_fetch,
            "return None if end.epoch == epoch and offset <= end.end_offset else end",
            "return None if offset <= log.log_end_offset else end",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "voter_asks_before_it_has_flushed",
        "A voter's fetch says that it has flushed what it has only written.",
        Edit(
            Following._may_fetch,
            "return not node.flushes or node.log.flushed_offset >= node.log.log_end_offset",
            "return True",
        ),
        faults=("power-all", "slow-disk"),
    ),
    Bug(
        "metadata_is_not_flushed",
        "The flush of the metadata log does nothing.",
        Edit(
            QuorumMember._flush,
            "await asyncio.get_running_loop().run_in_executor(self._thread, job.run)",
            "job.is_done = True",
        ),
        faults=("power-all",),
    ),
    Bug(
        "leader_of_the_quorum_never_resigns",
        "A leader that no majority asks for anything leads on.",
        Edit(Leadership.is_cut_off, "return self._node.now_ms >= self._quorum_lost_at_ms()", "return False"),
        Edit(
            Leadership._quorum_lost_at_ms,
            "return latest_first[others_needed - 1] + self._node.settings.quorum.fetch_timeout_ms",
            "return NEVER",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "metadata_is_not_truncated_durably",
        "Checkpoints stay above the truncation of the metadata log.",
        Edit(
            MetadataLog.truncate_to,
            "self._directory.lower_checkpoints({TopicPartition(METADATA_TOPIC, METADATA_PARTITION): offset})",
            "pass",
        ),
        faults=("cut", "pause", "kill-all"),
    ),
    # ---- the active controller
    Bug(
        "decides_before_it_is_established",
        "A new controller decides before it has replayed what its predecessor committed.",
        Edit(
            Quorum.led_by,
            "    self._tell()",
            "    if leader_id == self.node_id:\n        self._commands.open()\n    self._tell()",
        ),
        Edit(Commands._carry_out, "await self._catch_up()", "pass"),
        faults=("cut", "pause", "kill"),
    ),
    Bug(
        "decides_on_an_older_image",
        "The controller decides before the records of its last decision are replayed.",
        Edit(Commands._carry_out, "await self._catch_up()", "pass"),
        Edit(
            Commands._carry_out,
            "await self._replayed(end_offset)",
            "asyncio.ensure_future(self._replayed(end_offset)).add_done_callback(lambda done: done.cancelled() or done.exception())",
        ),
        faults=("kill", "reassign", "chase"),
    ),
    Bug(
        "answers_before_it_is_committed",
        "The controller answers when a decision is appended, not when it is committed.",
        Edit(
            Commands._carry_out,
            "end_offset = self._member.append(decision.records)",
            "end_offset = self._member.append(decision.records)\n        _answer(future, decision.response)",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "controller_that_was_replaced_decides_on",
        "A controller is not told that another node leads the quorum.",
        Edit(Quorum.led_by, "if leader_id != self.node_id:", "if False:"),
        faults=("cut", "pause"),
    ),
    Bug(
        "producer_id_is_given_twice",
        "A broker gives the same producer id to every producer.",
        Edit(ProducerIds.next_id, "self._next += 1\n        return self._next - 1", "return self._next"),
        faults=("crash-client",),
    ),
    # ---- replay
    Bug(
        "replays_what_is_not_committed",
        "A node replays metadata that its log holds, and that another leader may truncate.",
        Edit(
            MetadataReplay._replay_some,
            "self._log.read(offset, _READ_BYTES, self._high_watermark)",
            "self._log.read(offset, _READ_BYTES)",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "wake_up_of_an_image_is_lost",
        "Metadata that is replayed while a change is carried out waits for the next change.",
        Edit(MetadataReplay._deliver, "        self._is_replayed.clear()\n", ""),
        Edit(
            MetadataReplay._deliver,
            "self.delivered.advance(after.last_offset + 1)",
            "self.delivered.advance(after.last_offset + 1)\n        self._is_replayed.clear()",
        ),
        faults=("kill", "reassign", "recreate"),
    ),
    Bug(
        "image_that_failed_is_carried_out_in_part",
        "What changed while an earlier change was carried out is not compared with the image before.",
        Edit(
            MetadataReplay._carry_out, "self._delivered_image = after", "self._delivered_image = self.image"
        ),
        faults=("kill", "recreate", "reassign"),
    ),
    # ---- membership
    Bug(
        "broker_is_let_in_before_it_has_replayed",
        "A heartbeat claims a later metadata offset than the broker has replayed.",
        Edit(
            Membership._beat_once,
            "current_metadata_offset=self._quorum.image.last_offset",
            "current_metadata_offset=1 << 40",
        ),
        faults=("kill", "slow-disk"),
    ),
    Bug(
        "clean_stop_is_remembered_for_ever",
        "The mark of a clean stop is not removed at the start, and counts for every later start.",
        Edit(LogDirectory._take_clean_mark, "self._disk.remove(self._file(CLEAN_SHUTDOWN))", "pass"),
        Edit(
            Membership._registration,
            "self.broker_epoch if is_again else identity.previous_broker_epoch",
            "self.broker_epoch if is_again or identity.previous_broker_epoch < 0 else "
            "getattr(self._quorum.image.brokers.get(config.node.id), 'epoch', -1)",
        ),
        faults=("stop", "power-unflushed"),
    ),
)
