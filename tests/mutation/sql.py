"""Mutants of the blocks of a ``.sql`` file: conditions, comparisons, assignments, conflicts, orders, limits, locks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.mutation.mutant import Mutant, numbered
from tests.mutation.sql_tokens import Token, run_of, split, tokens

_OPENING = re.compile(r"^-- name: (\w+).*\n", re.MULTILINE)
_FLIPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "=": "<>", "<>": "="}
_AFTER_CONDITION = {"GROUP", "ORDER", "LIMIT", "RETURNING", "UNION", "FOR", "HAVING", "ON", "WHERE", "JOIN", "CROSS", "THEN", "AS"}
_AFTER_SET = {"FROM", "WHERE", "RETURNING"}
_AFTER_ORDER = {"LIMIT", "FOR", "UNION", "ON"}
_AFTER_CONFLICT = {"RETURNING"}
_CONDITIONS = {"WHERE", "ON", "HAVING", "WHEN"}


def sql_mutants(file: str, text: str) -> list[Mutant]:
    """Every mutant of every block of this file."""
    openings = list(_OPENING.finditer(text))
    ends = [one.start() for one in openings[1:]] + [len(text)]
    made: list[Mutant] = []
    for opening, end in zip(openings, ends, strict=True):
        block = _Block(file, opening[1], text, tokens(text[opening.end() : end], opening.end()))
        made += [*block.conditions(), *block.comparisons(), *block.assignments(), *block.conflicts(), *block.returned()]
        made += [*block.orders(), *block.limits(), *block.locks(), *block.lists(), *block.choices()]
    return numbered(made)


@dataclass(frozen=True)
class _Block:
    file: str
    name: str
    text: str
    words: Sequence[Token]

    def conditions(self) -> Iterator[Mutant]:
        """A term of an AND is dropped; an arm of an OR is."""
        for opening, condition in self._conditions():
            yield from self._terms(condition, is_condition=opening != "WHEN")

    def comparisons(self) -> Iterator[Mutant]:
        """A boundary moves by one; what was equal must differ."""
        tested = [(opening, word) for opening, condition in self._conditions() for word in condition]
        in_conditions = {word.start for opening, word in tested if opening != "WHEN"}
        in_cases = {word.start for opening, word in tested if opening == "WHEN"}
        for index, word in enumerate(self.words):
            if word.text not in _FLIPPED or (word.text == "=" and word.start not in in_conditions | in_cases):
                continue
            near = self.words[max(index - 3, 0) : index + 4]
            about = self._text(near[0].start, near[-1].end)
            shown = f"{word.text} → {_FLIPPED[word.text]} in {' '.join(about.split())}"
            yield self._mutant(word.start, word.end, _FLIPPED[word.text], is_condition=word.start in in_conditions, shown=shown)

    def assignments(self) -> Iterator[Mutant]:
        """An item of a SET is dropped."""
        for index, word in enumerate(self.words):
            if word.word != "SET" or self._word(index + 1) == "LOCAL":
                continue
            items = split(run_of(self.words, index + 1, _AFTER_SET), ",")
            for number, item in enumerate(items if len(items) > 1 else []):
                start = item[0].start if number == 0 else items[number - 1][-1].end
                end = items[1][0].start if number == 0 else item[-1].end
                yield self._mutant(start, end, "", shown=f"without SET {' '.join(self._text(item[0].start, item[-1].end).split())}")

    def conflicts(self) -> Iterator[Mutant]:
        """A row that is there already is left as it is, or is an error."""
        for index, word in enumerate(self.words):
            if word.word != "ON" or self._word(index + 1) != "CONFLICT":
                continue
            clause = run_of(self.words, index, _AFTER_CONFLICT)
            action = next(number for number, part in enumerate(clause) if part.word == "DO")
            end = clause[-1].end
            if clause[action + 1].word == "UPDATE":
                yield self._mutant(clause[action].start, end, "DO NOTHING", shown="ON CONFLICT DO UPDATE → DO NOTHING")
            else:
                yield self._mutant(word.start, end, "", shown="without ON CONFLICT DO NOTHING")

    def returned(self) -> Iterator[Mutant]:
        """A column that comes back is null. One that stands alone only says that there is a row."""
        for index, word in enumerate(self.words):
            if word.word != "RETURNING":
                continue
            columns = split(run_of(self.words, index + 1, ()), ",")
            for column in columns if len(columns) > 1 else []:
                names = [part for part in column if part.word != "AS"]
                value = column[: column.index(names[-1]) - 1] if len(names) < len(column) else column
                if "{columns}" not in {part.text for part in column} and value[0].word not in ("NULL", "FALSE", "0"):
                    yield self._mutant(value[0].start, value[-1].end, "NULL")

    def orders(self) -> Iterator[Mutant]:
        """The first comes last."""
        for index, word in enumerate(self.words):
            if word.word != "BY" or self._word(index - 1) != "ORDER":
                continue
            for key in split(run_of(self.words, index + 1, _AFTER_ORDER), ","):
                about = self._text(key[0].start, key[-1].end)
                if key[-1].word == "DESC":
                    yield self._mutant(key[-1].start, key[-1].end, "ASC", shown=f"ORDER BY {about} → ASC")
                else:
                    yield self._mutant(key[-1].end, key[-1].end, " DESC", shown=f"ORDER BY {about} → DESC")

    def limits(self) -> Iterator[Mutant]:
        """As many as there are. A bound in brackets is one for the planner, and holds nothing back."""
        for index, word in enumerate(self.words):
            if word.word == "LIMIT" and self._word(index + 1) != "(":
                clause = run_of(self.words, index, {"FOR", "UNION"})
                yield self._mutant(word.start, clause[-1].end, "")

    def locks(self) -> Iterator[Mutant]:
        """Rows are not locked; rows that are locked are waited for."""
        for index, word in enumerate(self.words):
            if word.word == "FOR":
                clause = run_of(self.words, index, {"UNION", "LIMIT"})
                yield self._mutant(word.start, clause[-1].end, "")
            if word.word == "SKIP":
                yield self._mutant(word.start, self.words[index + 1].end, "")

    def lists(self) -> Iterator[Mutant]:
        """One of the literals of an IN is not there."""
        tested = {word.start for opening, condition in self._conditions() if opening != "WHEN" for word in condition}
        for index, word in enumerate(self.words):
            if word.word != "IN" or self._word(index + 1) != "(" or not self._word(index + 2).startswith("'"):
                continue
            items = split(run_of(self.words, index + 2, ()), ",")
            subject = self._text(self.words[index - 1].start, word.start).strip()
            for number, item in enumerate(items if len(items) > 1 else []):
                start = item[0].start if number == 0 else items[number - 1][-1].end
                end = items[1][0].start if number == 0 else item[-1].end
                shown = f"without {item[0].text} in {subject} IN"
                yield self._mutant(start, end, "", is_condition=word.start in tested, shown=shown)

    def choices(self) -> Iterator[Mutant]:
        """``coalesce`` without its choice, and the smallest for the largest."""
        for index, word in enumerate(self.words):
            if word.word == "COALESCE":
                arguments = split(run_of(self.words, index + 2, ()), ",")
                end = self.words[self.words.index(arguments[-1][-1]) + 1].end
                for argument in arguments:
                    yield self._mutant(word.start, end, self._text(argument[0].start, argument[-1].end))
            if word.text in ("min", "max") and self._word(index + 1) == "(":
                about = self._text(word.start, run_of(self.words, index + 2, ())[-1].end)
                other = "max" if word.text == "min" else "min"
                yield self._mutant(word.start, word.end, other, shown=f"{word.text} → {other} in {' '.join(about.split())})")

    def _conditions(self) -> Iterator[tuple[str, list[Token]]]:
        for index, word in enumerate(self.words):
            if word.word in _CONDITIONS and self._word(index + 1) != "CONFLICT":
                condition = run_of(self.words, index + 1, _AFTER_CONDITION)
                if condition:
                    yield word.word, condition

    def _terms(self, condition: Sequence[Token], is_condition: bool) -> Iterator[Mutant]:
        arms = split(condition, "OR")
        if len(arms) > 1:
            for arm in arms:
                yield self._mutant(arm[0].start, arm[-1].end, "false", is_condition=is_condition)
                yield from self._inside(arm, is_condition)
            return
        for term in split(condition, "AND"):
            if self._text(term[0].start, term[-1].end).lower() != "true":
                yield self._mutant(term[0].start, term[-1].end, "true", is_condition=is_condition)
            yield from self._inside(term, is_condition)

    def _inside(self, part: Sequence[Token], is_condition: bool) -> Iterator[Mutant]:
        if len(split(part, "AND")) > 1:
            yield from self._terms(part, is_condition)
        elif part[0].text == "(" and part[-1].text == ")" and len(run_of(part, 1, ())) == len(part) - 2 and part[1].word != "SELECT":
            yield from self._terms(part[1:-1], is_condition)

    def _word(self, index: int) -> str:
        return self.words[index].word if 0 <= index < len(self.words) else ""

    def _text(self, start: int, end: int) -> str:
        return self.text[start:end]

    def _mutant(self, start: int, end: int, after: str, *, is_condition: bool = False, shown: str = "") -> Mutant:
        line = self.text.count("\n", 0, start) + 1
        return Mutant(self.file, self.name, start, self._text(start, end), after, (line,), is_condition, shown)
