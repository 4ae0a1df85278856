"""The settings of authorisation: who may do what."""

from typing import Final

from ottla.config.setting import ConfigError, Form, family, setting

KAFKAS_AUTHORISER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_PRINCIPALS: Final = Form(
    r"(?s)\s*|\s*[A-Za-z]+:[^;]+(;\s*[A-Za-z]+:[^;]+)*;?\s*",
    "principals like User:alice, separated by semicolons",
)


@family
class AuthorisationConfig:
    """Whether rights are checked, and who has all of them."""

    class_name: str = setting(
        "authorizer.class.name",
        "",
        choices=("", "acl", KAFKAS_AUTHORISER),
        doc="Whether requests are checked against access control lists (docs/security.md): empty for no checks, `acl`, or "
        "the name of Kafka's authorizer, for checks. Every node of a cluster needs the same value.",
    )
    super_users: str = setting(
        "super.users",
        "",
        form=_PRINCIPALS,
        doc="Principals that may do everything, as `User:admin;User:CN=broker-1`. The brokers of a cluster belong here, or "
        "need the right CLUSTER_ACTION on the cluster.",
    )
    allow_everyone_if_no_acl_found: bool = setting(
        "allow.everyone.if.no.acl.found",
        False,
        doc="Whether everybody may use a resource that no access control list is about.",
    )

    audit_log: str = setting(
        "ottla.audit.log",
        "off",
        choices=("off", "denied", "all"),
        doc="Which decisions about rights are written to `ottla.audit.log.file`: none, those that deny, or all.",
    )
    audit_log_file: str = setting(
        "ottla.audit.log.file",
        "",
        doc="The file of the audit log, one line of JSON for each decision. A full file (20 MiB) is renamed, and four old "
        "files are kept.",
    )
    audit_log_max_per_second: int = setting(
        "ottla.audit.log.max.per.second",
        100,
        at_least=1,
        doc="The most lines per second that the audit log gets. Decisions beyond that are counted in the next line.",
    )

    def refuse_audit(self) -> None:
        """Raise ConfigError if there is an audit log without decisions, or without a file."""
        if not self.has_audit_log:
            return
        if not self.is_enabled:
            raise ConfigError(
                "ottla.audit.log needs authorizer.class.name: there are no decisions without it."
            )
        if not self.audit_log_file:
            raise ConfigError("ottla.audit.log needs ottla.audit.log.file: the file that it is written to.")

    @property
    def has_audit_log(self) -> bool:
        """Whether decisions are written to a file."""
        return self.audit_log != "off"

    @property
    def is_enabled(self) -> bool:
        """Whether requests are checked."""
        return bool(self.class_name)

    @property
    def super_user_names(self) -> frozenset[str]:
        """The super users, each in Kafka's form `User:name`."""
        return frozenset(name.strip() for name in self.super_users.split(";") if name.strip())
