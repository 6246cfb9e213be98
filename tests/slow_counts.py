"""What a release says, computed slowly: plain Python from `data.parquet` and `datapackage.json`, without the package.

Every estimator here is written down from its definition, so that a mistake in the package does not repeat itself.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

ZERO = Fraction(0)

Row = Mapping[str, Any]
Value = tuple[Any, ...]
Test = Callable[[Row], bool | None]

READ: Mapping[str, Callable[[Any], Any]] = {
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "number": float,
}


def everything(row: Row) -> bool:
    """The condition that every row meets."""
    return True


class SlowRelease:
    """A release in memory: its rows, and its domain as tuples of one value for each sensitive column."""

    def __init__(self, folder: Path) -> None:
        manifest = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))
        self.ours: dict[str, Any] = manifest["sfumato"]
        self.design: dict[str, Any] = self.ours["design"]
        self.names: list[str] = self.ours["sensitive"]
        self._leaks: dict[tuple[int, Any], Fraction] = {}
        self.rows: list[dict[str, Any]] = pq.read_table(folder / "data.parquet").to_pylist()
        several = self.design.get("domains")  # of columns that are protected each for itself: all their combinations
        written = [list(each) for each in itertools.product(*several)] if several else self.design["domain"]
        self.domain: list[Value] = [self._value(each) for each in written]
        self.member_columns: list[str] = []  # of sets that have a column for each value, as the weights name them
        if self.design.get("form") == "columns":
            self.member_columns = pq.read_table(folder / "weights.parquet").column("column").to_pylist()

    def _value(self, written: Any) -> Value:
        several = written if len(self.names) > 1 else [written]
        kinds = zip(several, self.ours["types"], strict=True)
        return tuple(None if each is None else READ.get(kind, lambda same: same)(each) for each, kind in kinds)

    @property
    def public(self) -> list[str]:
        """The public columns."""
        shown = {*self.names, " + ".join(self.names), self.ours.get("cell_column"), *self.member_columns}
        return [name for name in self.rows[0] if name not in shown]

    def count(self, is_wanted: Test = everything, is_counted: Test = everything) -> Fraction:
        """The unbiased count of the records that meet a condition on sensitive columns and one on public columns."""
        found = self.counts(is_counted)
        wanted = [value for value in self.domain if is_wanted(dict(zip(self.names, value, strict=True)))]
        return sum((found[value] for value in wanted), Fraction(0))

    def counts(self, is_counted: Test = everything) -> dict[Value, Fraction]:
        """The unbiased count of each value of the domain."""
        rows = [row for row in self.rows if is_counted(row)]
        mechanism = self.ours["mechanism"]
        if mechanism == "subset":
            found = self._by_members(rows)
        elif mechanism == "levels":
            found = self._by_levels(rows)
        elif mechanism == "fine-grain":
            found = self._by_elimination(rows)
        elif mechanism == "harmonic":
            found = self._by_draws(rows)
        elif mechanism == "decoys":
            found = self._by_decoys(rows)
        else:
            found = self._by_cells(rows)
        return dict(zip(self.domain, found, strict=True))

    # ------------------------------------------------------------------------------------------------------- estimators

    @property
    def cells(self) -> list[tuple[list[int], Fraction]]:
        """The places and the retention of each cell."""
        if self.ours["mechanism"] == "uniform":
            return [(list(range(len(self.domain))), Fraction(self.design["retention"]))]
        return [(each["places"], Fraction(each["retention"])) for each in self.design["cells"]]

    def shown(self, rows: Sequence[Row]) -> dict[tuple[int, int], int]:
        """How many rows show each cell and place."""
        column = self.ours.get("cell_column")
        places = {value: place for place, value in enumerate(self.domain)}
        found: dict[tuple[int, int], int] = {}
        for row in rows:
            key = (0 if column is None else row[column], places[tuple(row[name] for name in self.names)])
            found[key] = found.get(key, 0) + 1
        return found

    def _by_cells(self, rows: Sequence[Row]) -> list[Fraction]:
        """A row shows its own value with p + q and another with q: o = p c + q R, solved for c, cell by cell."""
        shown = self.shown(rows)
        found = [Fraction(0)] * len(self.domain)
        for number, (places, retention) in enumerate(self.cells):
            total = sum(count for (cell, _), count in shown.items() if cell == number)
            swap = (1 - retention) / len(places)
            for place in places:
                found[place] += (shown.get((number, place), 0) - swap * total) / retention
        return found

    def _by_draws(self, rows: Sequence[Row]) -> list[Fraction]:
        """A row shows its own value by a coin, or else any value with a chance of its own: o = p c + b R."""
        shown, kept = self.shown(rows), Fraction(self.design["retention"])
        drawn = map(Fraction, self.design["swaps"])
        return [(shown.get((0, place), 0) - chance * len(rows)) / kept for place, chance in enumerate(drawn)]

    def members(self, row: Row) -> set[int]:
        """The places that the set of a row holds."""
        if self.member_columns:
            return {place for place, name in enumerate(self.member_columns) if row[name]}
        shown = row[" + ".join(self.names)]
        if self.design.get("form") == "list":
            assert len(set(shown)) == len(shown)
            return {self.domain.index((value,)) for value in shown}
        bits = "".join(f"{byte:08b}" for byte in shown)
        assert "1" not in bits[len(self.domain) :]
        return {place for place, bit in enumerate(bits) if bit == "1"}

    def _by_members(self, rows: Sequence[Row]) -> list[Fraction]:
        """A set holds its own value with a and another with b: o = a c + b (R - c), solved for c."""
        size, hold = len(self.domain), Fraction(self.design["hold_probability"])
        other = (self.design["subset_size"] - hold) / (size - 1)
        counts = [0] * size
        for row in rows:
            for place in self.members(row):
                counts[place] += 1
        return [(count - other * len(rows)) / (hold - other) for count in counts]

    def _by_levels(self, rows: Sequence[Row]) -> list[Fraction]:
        """Each row adds a number of its own to the count of each value."""
        found = [Fraction(0)] * len(self.domain)
        names = [each["name"] for each in self.design["levels"]]
        for row in rows:
            added = added_by_level(self.design, names.index(row[self.ours["cell_column"]]), self.members(row))
            found = [one + more for one, more in zip(found, added, strict=True)]
        return found

    def _by_elimination(self, rows: Sequence[Row]) -> list[Fraction]:
        """Solve o_y = sum over x of P(y|x) c_x, by Gauss and Jordan in fractions."""
        size, shown = len(self.domain), self.shown(rows)
        kept = [Fraction(each) for each in self.design["retentions"]]
        lines = [
            [(kept[true] if true == seen else 0) + (1 - kept[true]) / size for true in range(size)]
            + [Fraction(shown.get((0, seen), 0))]
            for seen in range(size)
        ]
        for column in range(size):
            pivot = next(line for line in range(column, size) if lines[line][column])
            lines[column], lines[pivot] = lines[pivot], lines[column]
            lines[column] = [each / lines[column][column] for each in lines[column]]
            for line in range(size):
                if line != column:
                    factor = lines[line][column]
                    lines[line] = [a - factor * b for a, b in zip(lines[line], lines[column], strict=True)]
        return [line[-1] for line in lines]

    def _by_decoys(self, rows: Sequence[Row]) -> list[Fraction]:
        """In each column o = c/g + (R - c) a, with a = f (g-1) / (g (N - f)) for a published count f; solved for c.

        What a record adds to a combination is the product of what it adds in each column.
        """
        return [
            sum((math.prod(self._added(row, number, each) for number, each in enumerate(value)) for row in rows), ZERO)
            for value in self.domain
        ]

    def _added(self, row: Row, number: int, value: Any) -> Fraction:
        """What a record adds to the count of a value of one column."""
        if (number, value) not in self._leaks:
            size, total = self.design["group_size"], len(self.rows)
            held = sum(each[self.names[number]] == value for each in self.rows)
            self._leaks[number, value] = Fraction(held * (size - 1), size * (total - held))
        leak = self._leaks[number, value]
        return ((row[self.names[number]] == value) - leak) / (Fraction(1, self.design["group_size"]) - leak)

    # ------------------------------------------------------------------------------------ estimators that use all cells

    def cell_shares(self) -> dict[tuple[int, int], float]:
        """Which part of each value's records is in each cell: published, or estimated from all rows."""
        entries: dict[tuple[int, int], float] = {}
        shown = self.shown(self.rows)
        for number, (places, retention) in enumerate(self.cells):
            total = sum(count for (cell, _), count in shown.items() if cell == number)
            for index, place in enumerate(places):
                if "counts" in self.design.get("cells", [{}])[0]:
                    count = self.design["cells"][number]["counts"][index]
                else:
                    count = float((shown.get((number, place), 0) - total * (1 - retention) / len(places)) / retention)
                entries[number, place] = max(float(count), 0.0)
        shares = {}
        for (number, place), count in entries.items():
            mine = [each for (_, other), each in entries.items() if other == place]
            shares[number, place] = count / sum(mine) if sum(mine) else 1 / len(mine)
        return shares

    def _matrix(self) -> tuple[list[tuple[int, int]], Any]:
        """The expected number of each cell and place for one record of each value."""
        shares, entries, lines = self.cell_shares(), [], []
        for number, (places, retention) in enumerate(self.cells):
            for seen in places:
                line = np.zeros(len(self.domain))
                for true in places:
                    line[true] = float((true == seen) * retention + (1 - retention) / len(places))
                    line[true] *= shares[number, true]
                entries.append((number, seen))
                lines.append(line)
        return entries, np.array(lines)

    def iterated(self, is_counted: Test = everything, steps: int = 10_000, tolerance: float = 1e-9) -> Any:
        """Iterative Bayes over all cells: the counts under which the rows are likeliest, from an even start."""
        rows = [row for row in self.rows if is_counted(row)]
        entries, matrix = self._matrix()
        shown = self.shown(rows)
        seen = np.array([shown.get(each, 0) for each in entries], dtype=np.float64)
        held = np.full(len(self.domain), len(rows) / len(self.domain))
        for _ in range(steps):
            expected = matrix @ held
            after = held * (matrix.T @ np.divide(seen, expected, out=np.zeros_like(seen), where=expected > 0))
            moved, held = np.abs(after - held).max(), after
            if moved <= tolerance * len(rows):
                break
        return held

    def least_squares(self, is_counted: Test = everything) -> Any:
        """Least squares over all cells, each line weighed by the variance that a hundred steps of Bayes expect."""
        rows = [row for row in self.rows if is_counted(row)]
        entries, matrix = self._matrix()
        shown = self.shown(rows)
        seen = np.array([shown.get(each, 0) for each in entries], dtype=np.float64)
        weights = 1 / np.sqrt(matrix @ self.iterated(is_counted, steps=100, tolerance=0))
        return np.linalg.lstsq(matrix * weights[:, None], seen * weights, rcond=None)[0]


def added_by_level(design: Mapping[str, Any], level: int, members: set[int]) -> list[Fraction]:
    """What a record of a level, whose set has these members, adds to the count of each value.

    From the whole down: a group has its part of what its parent has, by its size, and the contrasts of all levels. A
    contrast is the unbiased estimate of whether the true value is in the group, less that part of its parent's.
    """
    size, levels = len(design["domain"]), design["levels"]
    tiers = [[*range(size)], *(each["groups"] for each in levels[1:]), [0] * size]
    own, groups = levels[level], tiers[level]
    hold = Fraction(own["hold_probability"])
    other = (own["subset_size"] - hold) / max(groups)
    held = {group for place, group in enumerate(groups) if place in members}
    assert members == {place for place, group in enumerate(groups) if group in held}
    told = {group: ((group in held) - other) / (hold - other) for group in set(groups)}
    within = [
        {up: sum(told[low] for low, above in {*zip(groups, tier, strict=True)} if above == up) for up in tier}
        for tier in tiers
    ]
    found = []
    for place in range(size):
        count = Fraction(1)
        for tier in reversed(range(len(levels))):
            group, parent = tiers[tier][place], tiers[tier + 1][place]
            part = Fraction(tiers[tier].count(group), tiers[tier + 1].count(parent))
            count *= part
            if level <= tier:
                often = Fraction(levels[tier]["says"][level]) / Fraction(own["share"])
                count += often * (within[tier][group] - part * within[tier + 1][parent])
        found.append(count)
    return found
