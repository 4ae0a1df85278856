"""Names of subjects. A context is a registry within the registry: ids and subjects of its own.

`:.sales:orders-value` is the subject `orders-value` in the context `.sales`; a subject without a context is in the
default one, `.`. `:.sales:` alone stands for the context itself, for its settings. Settings of `:.__GLOBAL:` hold
for all contexts.
"""

from __future__ import annotations

from typing import Final

from ottla.gateway.registry.machine.problems import RegistryError, invalid_subject

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ":.__GLOBAL:"
_PREFIX: Final = ":."
# A record key is no place for a novel.
_MOST_CHARACTERS: Final = 1_000
_RESERVED: Final = ("__GLOBAL", "__EMPTY")


def split(subject: str) -> tuple[str, str]:
    """The context and the name within it."""
    if not subject.startswith(_PREFIX):
        return DEFAULT_CONTEXT, subject
    context, _, name = subject[1:].partition(":")
    return context, name


def context_of(subject: str) -> str:
    """The context of a subject."""
    return split(subject)[0]


def qualified(context: str, subject: str) -> str:
    """A subject in a context, which may be written with or without its colons; a subject may have its own."""
    if subject.startswith(_PREFIX):
        return normal(subject)
    prefix = context_prefix(context)
    return prefix + subject


def context_prefix(context: str) -> str:
    """What stands before the subjects of a context; nothing for the default one."""
    bare = context.strip(":")
    if bare and not bare.startswith("."):
        bare = "." + bare
    return "" if bare in ("", DEFAULT_CONTEXT) else f":{bare}:"


def normal(subject: str) -> str:
    """The same subject, without the name of the default context."""
    context, name = split(subject)
    return context_prefix(context) + name


def beside(parent: str, subject: str) -> str:
    """A subject that a schema of another subject refers to: in the same context, if it does not say another one."""
    return qualified(context_of(parent), subject)


def checked(subject: str) -> str:
    """A subject that a schema can be registered under. Raises RegistryError(42208)."""
    context, name = split(subject)
    printable = all(each.isprintable() for each in subject)
    if not name or name in _RESERVED or context == GLOBAL_CONTEXT.strip(":") or not printable:
        raise invalid_subject(subject)
    if len(subject) > _MOST_CHARACTERS:
        raise RegistryError(
            42208, f"the subject has {len(subject)} characters, and {_MOST_CHARACTERS} are the most"
        )
    return normal(subject)


def scopes(subject: str) -> list[str | None]:
    """Where a setting of a subject is looked for: the subject, its context, all contexts. None is the default one."""
    context = context_of(subject)
    own: str | None = context_prefix(context) or None
    found: list[str | None] = [subject] if subject else []
    if own not in found:
        found.append(own)
    return [*found, GLOBAL_CONTEXT]
