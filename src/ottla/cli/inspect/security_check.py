"""What is open to others than it should be: in a broker's settings, its files, and the rights of a cluster.

Every finding says who could do what, and what to type. `running_security_check` finds the settings and rights
of a running cluster; files can be looked at only on the machine that has them.
"""

from __future__ import annotations

import ipaddress
import stat
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ottla.cli.broker_settings import read_settings_file
from ottla.client.admin.checks.findings import CannotLookError, Examination
from ottla.config import BrokerConfig, ConfigError, Listener
from ottla.localcluster.plan.cluster import broker_settings
from ottla.localcluster.security_files import DIRECTORY, SecurityFiles
from ottla.localcluster.state_file import read_state
from ottla.security.acl.rules import WILDCARD, Acl, Operation, Permission, ResourceType
from ottla.security.principal import ANONYMOUS
from ottla.security.tls.certificate import EXPIRES_SOON, Certificate, CertificateError, certificates_in

_EVERYBODY: Final = f"User:{WILDCARD}"
_EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
# Harmless on the cluster: what every client may see, and the right to be idempotent.
_HARMLESS: Final = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.IDEMPOTENT_WRITE)
_OPTIONS: Final = {
    ResourceType.TOPIC: "--topic '*'",
    ResourceType.GROUP: "--group '*'",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id '*'",
    ResourceType.CLUSTER: "--cluster",
}


# ---- where settings are


def check_settings_file(path: Path) -> Examination:
    """Examine a file of settings and the files that it names."""
    report = Examination(str(path))
    try:
        settings = read_settings_file(str(path))
    except ConfigError as error:
        raise CannotLookError(str(error)) from error
    report.facts["settings"] = len(settings)
    _check(settings, str(path), report)
    return report


def check_directory(data: Path) -> Examination | None:
    """Examine the settings of an `ottla cluster`, and DIR/security; None if there is nothing to tell."""
    files, state = SecurityFiles(data), read_state(data)
    report = Examination(f"{data / DIRECTORY}" if files.exist else f"{data}: settings")
    shared = read_settings_file(str(files.broker_properties)) if files.broker_properties.is_file() else {}
    report.facts["settings"] = len(shared) or len(state.settings if state else ())
    if state is not None:
        for broker in state.brokers:
            _check({**shared, **broker_settings(data, state, broker)}, f"broker {broker.node_id}", report)
    elif shared:
        # Which listeners the broker is started with, nobody knows: only the files can be examined.
        check_files(_parsed(_alone(shared), str(files.broker_properties), report), report)
    if files.exist:
        check_secrets((*files.directory.glob("*.key"), *files.directory.glob("*.properties")), report)
    return report if files.exist or report.findings else None


def _alone(shared: Mapping[str, str]) -> dict[str, str]:
    return {**shared, "listeners": "SSL://localhost:9093,SASL_SSL://localhost:9092"}


def _check(settings: Mapping[str, str], place: str, report: Examination) -> None:
    config = _parsed(settings, place, report)
    if config is not None:
        check_settings(config, place, report)
        check_files(config, report)


def _parsed(settings: Mapping[str, str], place: str, report: Examination) -> BrokerConfig | None:
    try:
        return BrokerConfig.from_properties(settings)
    except ConfigError as error:
        report.error(place, f"a broker would not start: {str(error).rstrip('.')}", "Change the setting.")
        return None


# ---- what they say


def check_settings(config: BrokerConfig, place: str, report: Examination) -> None:
    """Examine the listeners, the mechanisms and the rights that settings give to everybody."""
    rights = config.authorisation
    for listener in config.node.bound_listeners:
        _check_listener(listener, config, place, report)
    if rights.is_enabled and rights.allow_everyone_if_no_acl_found:
        report.warning(
            place,
            "everybody may use a resource that no access control list is about",
            "When every client has its rights (`ottla acls list`), set allow.everyone.if.no.acl.found=false and restart "
            "the brokers one after the other.",
        )
    if str(ANONYMOUS) in rights.super_user_names:
        report.warning(
            place,
            f"{ANONYMOUS}, which is everybody who does not log in, is among super.users and may do everything",
            f"Take {ANONYMOUS} out of super.users and restart the brokers one after the other.",
        )


def _check_listener(listener: Listener, config: BrokerConfig, place: str, report: Examination) -> None:
    if not is_public(listener.host):
        return
    if listener.protocol == "PLAINTEXT" and not config.authorisation.is_enabled:
        report.warning(
            place,
            f"the listener {listener} is open: whoever reaches it may read, write and delete everything",
            "Make certificates and settings with `ottla security init` and go on as docs/security.md says under From an "
            "open cluster to a secured one; or listen on this machine only with `ottla serve --host localhost`.",
        )
    if listener.protocol == "SASL_PLAINTEXT" and "PLAIN" in config.sasl.enabled_mechanisms:
        report.warning(
            place,
            f"clients of the listener {listener} may log in by PLAIN, which sends the password readable for all on the "
            "way",
            "Set sasl.enabled.mechanisms=SCRAM-SHA-512 and restart the brokers one after the other, or give the listener "
            "TLS (SASL_SSL): `ottla security init` makes the certificates.",
        )


def is_public(host: str) -> bool:
    """Whether other machines may reach a listener at this host."""
    if host in _EVERY_INTERFACE:
        return True
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() != "localhost"


# ---- files


def check_files(config: BrokerConfig | None, report: Examination) -> None:
    """Examine the certificates, keys and users that settings name."""
    if config is None:
        return
    tls = config.tls
    certificates = (tls.keystore_location, tls.certificate_file, tls.truststore_location)
    for path in dict.fromkeys(each for each in certificates if each):
        _check_certificate_file(Path(path), report)
    secrets = (tls.keystore_location, tls.key_file, tls.key_password_file, config.sasl.users_file)
    check_secrets([Path(each) for each in secrets if each], report)


def _check_certificate_file(path: Path, report: Examination) -> None:
    try:
        found = certificates_in(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        report.error(
            path, f"it cannot be read: {why}", "Bring it back, or name another file in the settings."
        )
        return
    except CertificateError as error:
        report.error(path, str(error), "Put certificates in PEM form there, or name another file.")
        return
    check_expiry(min(found, key=lambda each: each.not_after), path, report)


def check_expiry(certificate: Certificate, place: object, report: Examination) -> None:
    """Find a certificate that has expired, or will in some weeks."""
    left = certificate.not_after - datetime.now(UTC)
    advice = (
        "Replace its file; brokers that run use the new one without a restart. `ottla security renew` does it for "
        "certificates of `ottla security init`."
    )
    day = certificate.not_after.date()
    if left.total_seconds() <= 0:
        report.error(place, f"the certificate expired on {day}: nobody accepts it any more", advice)
    elif left <= EXPIRES_SOON:
        report.warning(place, f"the certificate expires in {left.days} days, on {day}", advice)


def check_secrets(paths: Iterable[Path], report: Examination) -> None:
    """Find files with keys or passwords in them that others than their owner may read."""
    known = {finding.place for finding in report.findings}
    for path in sorted(set(paths)):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue  # of a file that is missing, the settings or the broker tell
        if mode & _OTHERS and str(path) not in known and _holds_secret(path):
            report.warning(
                path,
                f"others than its owner may read the secrets in it (its mode is {mode:o})",
                f"chmod 600 {path}",
            )


def _holds_secret(path: Path) -> bool:
    return (
        path.suffix != ".properties"
        or "password" in path.read_text("utf-8", "replace")
        or path.stem == "users"
    )


# ---- rights


def check_rights(acls: Iterable[Acl], place: str, report: Examination) -> None:
    """Find rights that everybody has on everything."""
    for acl in acls:
        if not _is_for_everybody(acl):
            continue
        operation = acl.operation.name.lower().replace("_", "-")
        option = _OPTIONS.get(acl.pattern.resource_type, "")
        report.warning(
            place,
            f"a right is for everybody: {acl}",
            f"Give each client its own rights, then remove this one: ottla acls remove --principal '{WILDCARD}' "
            f"--operation {operation} {option}".rstrip(),
        )


def _is_for_everybody(acl: Acl) -> bool:
    if acl.principal != _EVERYBODY or acl.permission is not Permission.ALLOW or acl.host != WILDCARD:
        return False
    if acl.pattern.resource_type is ResourceType.CLUSTER:
        return acl.operation not in _HARMLESS
    return acl.pattern.name == WILDCARD
