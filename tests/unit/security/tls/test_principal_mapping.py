"""Kafka's rules from certificates to principals; the cases are those of Kafka's own test."""

import pytest

from ottla.security.tls.principal_mapping import MappingError, NoRuleAppliesError, PrincipalMapping

KAFKAS_RULES = ", ".join(
    [
        r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_fits_gives_the_name(subject: str, name: str) -> None:
    assert PrincipalMapping(KAFKAS_RULES).name_of(subject) == name


@pytest.mark.parametrize(
    "text",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        r"RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        r"rule:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        r"RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/LU",
        r"RULE:^CN=((.*?),.*$/$1/",
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(MappingError, match=r"rule|pattern"):
        PrincipalMapping(text)


def test_a_subject_that_no_rule_fits_is_nobody() -> None:
    with pytest.raises(NoRuleAppliesError, match="applies to 'CN=eve'"):
        PrincipalMapping(r"RULE:^CN=(.*?),OU=Brokers$/$1/").name_of("CN=eve")


@pytest.mark.parametrize("text", ["DEFAULT", " DEFAULT , ", "", "\nDEFAULT\n"])
def test_the_default_takes_the_subject_as_it_is(text: str) -> None:
    assert PrincipalMapping(text).name_of("CN=a,O=b") == "CN=a,O=b"


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (r"RULE:^CN=([a-z]+)(\d*),O=(.*)$/$1-$3/", "broker-x/y"),
        (r"RULE:^CN=([a-z]+)(\d*),O=(.*)$/$11/", "broker1"),
        (r"RULE:^CN=([a-z]+)(\d*),O=(.*)$/$9/", "$9"),
        (r"RULE:^CN=([a-z]+)(\d*),O=(.*)$/\$1 costs\/more/", "$1 costs/more"),
        (r"RULE:^CN=([a-z]+)(\d*),O=x\/y$/$1/U", "BROKER"),
        (r"RULE:^CN=(x?)[a-z]+(\d*),O=(.*)$/[$1]/", "[]"),
        (r"RULE:^CN=(?P<who>[a-z]+).*$/${who}/", "broker"),
    ],
)
def test_replacements_are_read_as_java_reads_them(rule: str, name: str) -> None:
    assert PrincipalMapping(rule).name_of("CN=broker,O=x/y") == name


def test_a_pattern_must_match_the_whole_subject() -> None:
    with pytest.raises(NoRuleAppliesError):
        PrincipalMapping("RULE:CN=admin/admin/").name_of("CN=admin,O=Other")
