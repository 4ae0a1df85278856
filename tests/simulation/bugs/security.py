"""Bugs in `ottla.security`, and where `ottla.server` asks it: rights that are remembered, quotas, logins."""

from tests.simulation.bugs.bug import Bug, Edit

from ottla.security.acl.authoriser import Authoriser
from ottla.security.quota.connection_rates import ConnectionRates
from ottla.security.quota.mutations import MutationQuota
from ottla.security.quota.token_bucket import TokenBucket
from ottla.server.gate.basis import basis_of
from ottla.server.gate.login import Login
from ottla.server.gate.quotas import Quotas
from ottla.server.gate.request_time import Timed
from ottla.server.gate.rights import Rights
from ottla.server.net.refusal_log import RefusalLog
from ottla.server.quorum.forwarding import asker_of

BUGS = (
    # ---- rights
    Bug(
        "remembered_requests_outlive_their_right",
        "A request that repeats an earlier one is appended although the right to write is gone by now.",
        Edit(
            basis_of,
            "return version if rights is None else version + rights.version",
            "return version",
        ),
        faults=("revoke",),
    ),
    Bug(
        "rights_of_the_first_image",
        "A broker goes on with the rules that it found first.",
        Edit(Rights._current, "if acls is not self._acls:", "if self._acls is None:"),
        faults=("revoke",),
    ),
    Bug(
        "allow_beats_deny",
        "A rule that allows decides before one that denies.",
        Edit(
            Authoriser.verdict,
            'return Verdict(False, f"an ACL denies it: {acl}")',
            "continue",
        ),
        faults=("revoke",),
    ),
    # ---- quotas
    Bug(
        "throttled_session_is_not_muted",
        "A client beyond its quota is told to wait, and read from as before.",
        Edit(Quotas.mute, "session.is_throttled_until(until_ms)", "pass"),
    ),
    Bug(
        "shorter_throttle_ends_a_longer_one",
        "A second, shorter throttle time replaces the first.",
        Edit(Quotas.mute, "or session.throttled_until_ms < until_ms", "or True"),
    ),
    Bug(
        "throttled_fetch_is_counted",
        "Records that a throttled fetch did not get count as read.",
        Edit(Quotas.fetched, "bucket.give_back(size_bytes)", "pass"),
    ),
    Bug(
        "work_before_a_wait_is_free",
        "What a request did before it had to wait does not count.",
        Edit(Timed.__await__, "self._quotas.end_work(self._session)", "pass"),
    ),
    Bug(
        "new_rate_forgives_the_debt",
        "A changed quota begins with a full bucket.",
        Edit(TokenBucket.limit, "min(self._tokens, self.capacity)", "self.capacity"),
    ),
    Bug(
        "large_change_is_refused_for_good",
        "A topic with more partitions than a quota allows at once is never created.",
        Edit(
            MutationQuota.charge,
            "(wait_ms := self._bucket.wait_ms(self._now_ms))",
            "(wait_ms := self._bucket.take(partition_count, self._now_ms))",
        ),
    ),
    Bug(
        "forwarded_request_is_nobodys",
        "A request that another broker hands on counts for ANONYMOUS.",
        Edit(asker_of, "if not principal:", "if True:"),
    ),
    Bug(
        "refused_connection_costs_the_listener",
        "A connection that is refused because of its address counts for the listener's rate.",
        Edit(ConnectionRates.connected, "return min(self._window_ms, wait_ms)", "pass"),
    ),
    # ---- logins and refusals
    Bug(
        "second_login_may_be_as_another_user",
        "A client that logs in again on its connection may become another user.",
        Edit(Login.respond, "self._user is not None and self._user != step.login.user", "False"),
    ),
    Bug(
        "every_refusal_is_a_line",
        "A storm of refused connections fills the log.",
        Edit(RefusalLog.note, "now_s - logged_at < _INTERVAL_S", "False"),
    ),
)
