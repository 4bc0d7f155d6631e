"""``Registry``: the jobs of one application, by name and by alias."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from onward.admission import Constraint
from onward.definition import JobDefinition
from onward.errors import InvalidDefinition, UnknownJobType
from onward.spelling import did_you_mean, shown


class Registry:
    """The definitions of one application, by name and by alias."""

    def __init__(self, definitions: Iterable[JobDefinition[Any]] = ()) -> None:
        self._by_name: dict[str, JobDefinition[Any]] = {}
        self._definitions: list[JobDefinition[Any]] = []
        for definition in definitions:
            self.add(definition)

    def add(self, definition: JobDefinition[Any]) -> None:
        """Add a definition. Raises ``InvalidDefinition`` when its name or an alias is taken by another."""
        if not isinstance(definition, JobDefinition):
            raise InvalidDefinition(f"{shown(definition)} is not a job: make one with define_job(name, handler)")
        if definition in self._definitions:
            return
        names = (definition.name, *definition.aliases)
        for name in names:
            if name in self._by_name or names.count(name) > 1:
                raise InvalidDefinition(f"two jobs are called {name!r}: a name or alias belongs to one definition")
        self._by_name.update(dict.fromkeys(names, definition))
        self._definitions.append(definition)

    def __getitem__(self, name: str) -> JobDefinition[Any]:
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownJobType(f"no job is called {name!r}{did_you_mean(name, sorted(self._by_name))}") from None

    def get(self, name: str) -> JobDefinition[Any] | None:
        """The definition of this name or alias, if there is one."""
        return self._by_name.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[JobDefinition[Any]]:
        return iter(self._definitions)

    def __len__(self) -> int:
        return len(self._definitions)

    def leases(self) -> dict[str, timedelta]:
        """Every name that can be run here, aliases included, with its lease: what a worker tells the store that it knows."""
        return {name: definition.lease for name, definition in self._by_name.items()}

    def names(self) -> dict[str, str]:
        """Every name under which jobs of this application are stored, with that of its definition."""
        return {name: definition.name for name, definition in self._by_name.items()}

    def constraints(self) -> dict[str, Constraint]:
        """What a store has to know, when it claims, of the names whose jobs wait for others."""
        plain = Constraint()
        said = {name: definition.constraints.constraint for name, definition in self._by_name.items()}
        return {name: constraint for name, constraint in said.items() if constraint != plain}
