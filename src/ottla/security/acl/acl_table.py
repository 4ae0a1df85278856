"""ACLs by pattern and principal: those about a resource are found without a look at all the others.

A finished table does not change. `changed` makes another one, which shares the patterns that no change touches: a
change of one ACL among ten thousand costs a copy of references, not a walk over all of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ottla.security.acl.rules import WILDCARD, Acl, PatternType, ResourceType

_ByPrincipal = dict[str, list[Acl]]
_NONE: Final[Mapping[int, int]] = {}


class AclTable:
    """One set of ACLs."""

    __slots__ = ("_patterns", "_prefix_lengths")

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        # By the pattern's kind, name and whether it is a prefix.
        self._patterns: dict[tuple[int, str, bool], _ByPrincipal] = {}
        # How many prefixes of each length a kind of resource has: most clusters have a few lengths.
        self._prefix_lengths: dict[int, dict[int, int]] = {}
        for acl in acls:
            self._add(acl)

    def changed(self, removed: Iterable[Acl], added: Iterable[Acl]) -> "AclTable":
        """The same ACLs without some and with others."""
        other, own = AclTable(), set[tuple[int, str, bool]]()
        other._patterns = dict(self._patterns)
        other._prefix_lengths = {kind: dict(lengths) for kind, lengths in self._prefix_lengths.items()}
        for acl in removed:
            other._own(_key(acl), own)
            other._remove(acl)
        for acl in added:
            other._own(_key(acl), own)
            other._add(acl)
        return other

    def about(self, kind: ResourceType, name: str) -> Iterator[Mapping[str, list[Acl]]]:
        """The ACLs of each pattern that a resource fits, by principal."""
        patterns = self._patterns
        for literal in (name,) if name == WILDCARD else (name, WILDCARD):
            found = patterns.get((kind, literal, False))
            if found is not None:
                yield found
        for length in self._prefix_lengths.get(kind, _NONE):
            if length <= len(name):
                found = patterns.get((kind, name[:length], True))
                if found is not None:
                    yield found

    def of_kind(self, kind: ResourceType) -> Iterator[Acl]:
        """All ACLs about resources of a kind."""
        for (of_kind, _, _), by_principal in self._patterns.items():
            if of_kind == kind:
                for acls in by_principal.values():
                    yield from acls

    def _own(self, key: tuple[int, str, bool], own: set[tuple[int, str, bool]]) -> None:
        """Have a copy of a pattern's ACLs that no other table has."""
        if key not in own and key in self._patterns:
            self._patterns[key] = {who: [*acls] for who, acls in self._patterns[key].items()}
        own.add(key)

    def _add(self, acl: Acl) -> None:
        key = kind, name, is_prefix = _key(acl)
        by_principal = self._patterns.get(key)
        if by_principal is None:
            by_principal = self._patterns[key] = {}
            if is_prefix:
                lengths = self._prefix_lengths.setdefault(kind, {})
                lengths[len(name)] = lengths.get(len(name), 0) + 1
        by_principal.setdefault(acl.principal, []).append(acl)

    def _remove(self, acl: Acl) -> None:
        key = kind, name, is_prefix = _key(acl)
        by_principal = self._patterns[key]
        by_principal[acl.principal].remove(acl)
        if by_principal[acl.principal]:
            return
        del by_principal[acl.principal]
        if by_principal:
            return
        del self._patterns[key]
        if is_prefix:
            lengths = self._prefix_lengths[kind]
            lengths[len(name)] -= 1
            if not lengths[len(name)]:
                del lengths[len(name)]


def _key(acl: Acl) -> tuple[int, str, bool]:
    kind, name, pattern_type = acl.pattern
    return kind, name, pattern_type is PatternType.PREFIXED
