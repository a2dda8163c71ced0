"""Documents as the programs take them: paths, or a table that is written to a file for the occasion."""

import json
import os
from pathlib import Path
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Union, cast

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]
#: Paths, or a table: dicts, a pyarrow table, a pandas or polars data frame (the last three are ``Any`` here).
Source = Union[Paths, Iterable[Mapping[str, Any]], Any]


def as_paths(source: Any) -> Optional[List[str]]:
    """The paths of a source, or None if it is a table."""
    if isinstance(source, (str, os.PathLike)):
        return [os.fspath(cast(Any, source))]
    if isinstance(source, (list, tuple)) and source and all(isinstance(item, (str, os.PathLike)) for item in source):
        return [os.fspath(item) for item in source]
    return None


class Table:
    """A table of documents that is written to a file, and may be read again after it was cleaned.

    A table without a column of ids gets one: the numbers of its rows, from 0.
    """

    def __init__(self, source: Any, id_field: str, text_field: str) -> None:
        self._kind = _kind_of(source)
        self._id_field = id_field
        self._arrow = None if self._kind == "dicts" else _to_arrow(source, self._kind)
        if self._arrow is None:
            self._rows = _to_dicts(source)
            _ensure_texts(self._rows, text_field)
            self._has_ids = all(id_field.split(".")[0] in row for row in self._rows)
        else:
            names = self._arrow.column_names
            if text_field.split(".")[0] not in names:
                raise ValueError(f"the table has no column {text_field!r}, only {names}; give text_field")
            self._has_ids = id_field.split(".")[0] in names

    @property
    def suffix(self) -> str:
        """What the name of the file ends with."""
        return ".jsonl" if self._arrow is None else ".parquet"

    def write(self, path: Path) -> str:
        """Writes the table to a file, with ids."""
        if self._arrow is not None:
            _write_parquet(self._arrow if self._has_ids else _with_ids(self._arrow, self._id_field), path)
        else:
            with open(path, "w", encoding="utf-8") as file:
                for number, row in enumerate(self._rows):
                    record = row if self._has_ids else {**row, self._id_field: str(number)}
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
        return str(path)

    def read_again(self, path: Path) -> Any:
        """The rows of a file, as the kind of table that this one is."""
        if self._arrow is None:
            with open(path, encoding="utf-8") as file:
                rows = [json.loads(line) for line in file]
            return rows if self._has_ids else [_without(row, self._id_field) for row in rows]
        from pyarrow import parquet

        arrow = parquet.read_table(path)
        return _from_arrow(arrow if self._has_ids else arrow.drop_columns([self._id_field]), self._kind)


def _kind_of(source: Any) -> str:
    module = type(source).__module__.split(".")[0]
    if module in ("pandas", "polars") and hasattr(source, "columns"):
        return module
    if module == "pyarrow" or hasattr(source, "__arrow_c_stream__"):
        return "pyarrow"
    if isinstance(source, Mapping) or isinstance(source, bytes) or not isinstance(source, Iterable):
        name = type(source).__name__
        raise TypeError(f"documents are paths, dicts, or a table of pyarrow, pandas or polars, not {name}")
    return "dicts"


def _to_arrow(source: Any, kind: str) -> Any:
    import pyarrow

    if kind == "pandas":
        return pyarrow.Table.from_pandas(source)
    if kind == "polars":
        return source.to_arrow()
    if isinstance(source, pyarrow.Table):
        return source
    if isinstance(source, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([source])
    return pyarrow.RecordBatchReader.from_stream(source).read_all()


def _from_arrow(table: Any, kind: str) -> Any:
    if kind == "pandas":
        return table.to_pandas()
    if kind == "polars":
        import polars

        return polars.from_arrow(table)
    return table


def _to_dicts(source: Iterable[Any]) -> List[Mapping[str, Any]]:
    rows = list(source)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"row {number} is of type {type(row).__name__}, not a dict with id and text")
    return rows


def _ensure_texts(rows: Sequence[Mapping[str, Any]], text_field: str) -> None:
    for number, row in enumerate(rows):
        value: Any = row
        for name in text_field.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if not isinstance(value, str):
            raise ValueError(f"row {number} has no text in {text_field!r}: {value!r}; give text_field")


def _with_ids(table: Any, id_field: str) -> Any:
    import pyarrow

    return table.append_column(id_field, pyarrow.array(map(str, range(table.num_rows)), pyarrow.string()))


def _write_parquet(table: Any, path: Path) -> None:
    from pyarrow import parquet

    parquet.write_table(table, path, compression="zstd")


def _without(row: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    return {name: value for name, value in row.items() if name != field}
