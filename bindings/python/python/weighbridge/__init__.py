"""Records of Weighbridge as tables: `weighbridge.read("run.jsonl")`.

`docs/record.md` names every field. A line of kind `run` is a row of the table `run`, and so on; a field of a field is a column
`inner.outer`, so `record.pandas("summary")` has `case`, `median`, `per_op.cpu_ns`, …. Without pyarrow and pandas, rows are dictionaries.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["SCHEMA", "Record", "read"]

SCHEMA = 2
"""The newest schema that this module reads."""

Row = dict[str, Any]


class Record(Mapping[str, list[Row]]):
    """One record: from each kind of line to its rows, in the order of the file."""

    def __init__(self, rows: dict[str, list[Row]], notes: list[str]) -> None:
        self._rows = rows
        self.notes = notes
        """What was not read, and why."""

    def __getitem__(self, kind: str) -> list[Row]:
        return self._rows[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return "<Record: " + ", ".join(f"{len(rows)} {kind}" for kind, rows in self.items()) + ">"

    @property
    def header(self) -> Row:
        """The first line, as it is written."""
        return self._rows["header"][0]

    def rows(self, kind: str = "run") -> list[Row]:
        """The lines of a kind with one level of columns: a field of a field is `outer.inner`. Lists stay lists."""
        return [dict(_flat(row)) for row in self._rows.get(kind, [])]

    def columns(self, kind: str = "run") -> dict[str, list[Any]]:
        """The same by column; what a line does not have is `None`."""
        rows = self.rows(kind)
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def arrow(self, kind: str = "run") -> Any:
        """The same as a `pyarrow.Table`. A column whose values have no common type is JSON text."""
        import pyarrow

        def array(values: list[Any]) -> Any:
            try:
                return pyarrow.array(values)
            except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError):
                return pyarrow.array([None if value is None else json.dumps(value) for value in values])

        columns = self.columns(kind)
        return pyarrow.table([array(values) for values in columns.values()], names=list(columns))

    def pandas(self, kind: str = "run") -> Any:
        """The same as a `pandas.DataFrame`."""
        import pandas

        return pandas.DataFrame(self.columns(kind))

    def samples(self) -> list[Row]:
        """Each sample as a row: `case`, `run`, `sample`, `value`."""
        return [
            {"case": run["case"], "run": run["run"], "sample": index, "value": value}
            for run in self._rows.get("run", [])
            for index, value in enumerate(run.get("samples", []))
        ]


def _flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif prefix or name != "kind":
            yield prefix + name, value


def read(path: str | os.PathLike[str]) -> Record:
    """Reads a record. One that ends early is a smaller record: a last line that is cut is noted and left out.

    `ValueError` for a file that is no record, or of a newer schema.
    """
    rows: dict[str, list[Row]] = {}
    notes: list[str] = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                kind = row["kind"]
            except (json.JSONDecodeError, KeyError, TypeError) as why:
                if rows and not line.endswith("\n"):
                    notes.append(f"line {number} is cut, and was left out")
                    break
                raise ValueError(f"{path}, line {number}: not a line of a record ({why})") from why
            if not rows and kind != "header":
                raise ValueError(f"{path}: not a record, for it begins with {kind!r} and not with a header")
            if kind == "header":
                if rows:
                    notes.append(f"line {number} begins another record; nothing from there on was read")
                    break
                if row["schema"] > SCHEMA:
                    raise ValueError(f"{path}: schema {row['schema']}, and this module reads {SCHEMA}; use a newer one")
            rows.setdefault(kind, []).append(row)
    if not rows:
        raise ValueError(f"{path}: an empty file is no record")
    return Record(rows, notes)
