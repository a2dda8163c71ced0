"""The records of a program, as it writes them."""

import json
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Generic, Iterator, List, Optional, Type, TypeVar, cast

from ._program import Process

Record = TypeVar("Record")

#: Makes the arguments of a program; files that it needs go into the directory.
MakeArguments = Callable[[Path], List[str]]


class Records(Iterator[Record], Generic[Record]):
    """An iterator over the records of a program.

    The program starts with the first record that is asked for, and waits while no more are. ``close``, the end of a
    ``with`` block and the garbage collector stop it. ``arrow`` and ``pandas`` give all records as a table.
    """

    def __init__(self, program: str, make_arguments: MakeArguments, has_parquet: bool = True) -> None:
        self._program = program
        self._make_arguments = make_arguments
        self._has_parquet = has_parquet
        self._lines: Optional[Iterator[bytes]] = None
        self._is_closed = False

    def __iter__(self) -> "Records[Record]":
        return self

    def __next__(self) -> Record:
        if self._lines is None:
            if self._is_closed:
                raise StopIteration
            self._lines = _run(self._program, self._make_arguments, [])
        return cast(Record, json.loads(next(self._lines)))

    def close(self) -> None:
        """Stops the program, if it is running. There are no more records then."""
        self._is_closed = True
        if self._lines is not None:
            cast(Any, self._lines).close()

    def __enter__(self) -> "Records[Record]":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def arrow(self) -> Any:
        """All records as a pyarrow table.

        Columns are typed as in the Parquet files of the programs; lists are columns of JSON text.
        """
        self._ensure_unread("arrow")
        import pyarrow
        from pyarrow import parquet

        if not self._has_parquet:
            return pyarrow.Table.from_pylist(list(self))
        self._is_closed = True
        with tempfile.TemporaryDirectory(prefix="dedup-python-") as name:
            file = Path(name) / "records.parquet"
            for _ in _run(self._program, self._make_arguments, ["--format", "parquet", "-o", str(file)]):
                pass
            return parquet.read_table(file)

    def pandas(self) -> Any:
        """All records as a pandas data frame."""
        self._ensure_unread("pandas")
        import pandas

        return pandas.DataFrame(list(self))

    def _ensure_unread(self, method: str) -> None:
        if self._lines is not None or self._is_closed:
            raise ValueError(f"{method}() needs all records, but some were read already, or close() was called")


# Not a method: a generator that refers to its Records would be a cycle, and only the garbage collector would stop the program.
def _run(program: str, make_arguments: MakeArguments, more: List[str]) -> Iterator[bytes]:
    with tempfile.TemporaryDirectory(prefix="dedup-python-") as name:
        directory = Path(name)
        process = Process(program, [*make_arguments(directory), *more], directory)
        try:
            yield from process.output
            process.finish()
        finally:
            process.stop()
