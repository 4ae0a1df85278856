"""Faults of a secured cluster: passwords, certificates and rights that change under clients at work, and a broker
whose certificate expires. All other faults happen there, too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from tests.chaos.faults import KINDS, LONG, SHORT, Kind, Scene
from tests.chaos.secured import GUEST, USERS, SecuredCluster
from tests.clusters import eventually, logged_in
from tests.integration.peer import produce

import ottla
from ottla import Acl, AclFilter, Operation, Pattern, succeeded
from ottla.errors import ErrorCode
from ottla.localcluster.plan.security_settings import AUTHORITY, BROKER, certificate_file, key_file
from ottla.localcluster.security_files import LOCAL_HOSTS
from ottla.runtime.certificate_authority import Authority, Issued
from ottla.runtime.secret_file import write_secret_file

# A broker looks for new files every three seconds: a certificate must be in use before it expires.
_LOOKS_EVERY_S: Final = 3.0
_LAST_S: Final = 5.0
_DAYS: Final = 365
_IN_FORCE_S: Final = 60.0


def _secured(scene: Scene) -> SecuredCluster:
    assert isinstance(scene.cluster, SecuredCluster)
    return scene.cluster


def change_password(scene: Scene) -> None:
    user = USERS[scene.fault.pick % len(USERS)]
    scene.note(user)
    _secured(scene).change_password(user)


def renew_certificates(scene: Scene) -> None:
    """New certificates for all, while all work; every connection is made again with them."""
    renewed = _secured(scene).files.renew()
    scene.note(f"{len(renewed) // 2} certificates")
    time.sleep(_LOOKS_EVERY_S)
    for node_id in scene.cluster.running:
        scene.cluster.reset(node_id)


def expire_certificate(scene: Scene) -> None:
    """A broker's certificate expires, and its connections break: nobody lets it in, and it reaches nobody, until it
    has a new certificate.
    """
    node_id = scene.leader()
    scene.note(f"broker {node_id}")
    try:
        _issue(_secured(scene), node_id, timedelta(seconds=_LAST_S))
        time.sleep(_LAST_S)
        ended = scene.cluster.reset(node_id)
        scene.note(f"and {ended} connections")
        scene.hold()
    finally:
        _issue(_secured(scene), node_id, timedelta(days=_DAYS))
        time.sleep(_LOOKS_EVERY_S)


def _issue(cluster: SecuredCluster, node_id: int, lifetime: timedelta) -> None:
    directory, stem = cluster.files.directory, f"{BROKER}-{node_id}"
    own = (certificate_file(directory, AUTHORITY), key_file(directory, AUTHORITY))
    authority = Authority(Issued(*(file.read_text(encoding="utf-8") for file in own)))
    issued = authority.broker(BROKER, LOCAL_HOSTS, datetime.now(UTC), lifetime)
    write_secret_file(key_file(directory, stem), issued.key)
    new = certificate_file(directory, stem).with_suffix(".new")
    new.write_text(issued.certificate, encoding="utf-8")
    new.replace(certificate_file(directory, stem))


def revoke_right(scene: Scene) -> None:
    """A right comes, goes, and comes again; on the leader it counts from the answer on, or soon after."""
    cluster = _secured(scene)
    topic = scene.topic
    right = Acl(Pattern.topic(topic), f"User:{GUEST}", "*", Operation.WRITE)

    async def give(admin: ottla.Admin) -> None:
        succeeded(await admin.create_acls([right]))

    async def take(admin: ottla.Admin) -> None:
        await admin.delete_acls([AclFilter(principal=f"User:{GUEST}")])

    for work, wanted in ((give, True), (take, False)):
        cluster.as_administrator(work)
        words = "a right counts" if wanted else "a right is gone"
        eventually(lambda: _may_write(cluster, topic, scene.fault.partition) is wanted, words, _IN_FORCE_S)  # noqa: B023
    for _ in range(10):
        assert not _may_write(cluster, topic, scene.fault.partition), "a right that was revoked is back"


def _may_write(cluster: SecuredCluster, topic: str, partition: int) -> bool | None:
    """Whether the guest may write to a partition, whose leader is asked; the record is one that no log takes."""
    port = cluster.port_of(cluster.leader_of(topic, partition))
    with logged_in(port, cluster.security_of(GUEST)) as peer:
        code = produce(peer, topic, b"not a batch", partition=partition).error_code
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return None
    return code != ErrorCode.TOPIC_AUTHORIZATION_FAILED


SECURE_KINDS: Final[Mapping[str, Kind]] = {
    **KINDS,
    "change a password": Kind(5, SHORT, change_password),
    "renew all certificates": Kind(3, SHORT, renew_certificates),
    "the certificate of a leader expires": Kind(4, LONG, expire_certificate),
    "revoke a right": Kind(4, SHORT, revoke_right),
}
