"""Find copied text in large collections of documents: the dedup programs, for Python.

Each function runs a program and yields its records as they come::

    import dedup_toolchain as dedup

    for pair in dedup.pairs("essays/", threshold=0.5):
        print(pair["a"], pair["b"], pair["score"])

Documents are files and directories, an index, or a table: dicts, a pyarrow table, a pandas or polars data frame.
"""

from ._program import DedupError, DedupWarning, program_path
from ._records import (
    Account,
    AlignedPair,
    Cluster,
    CountedWords,
    Dropped,
    DroppedMember,
    HistoryAnswer,
    HistoryMatch,
    Match,
    Pair,
    Passage,
    TableRow,
)
from ._source import Paths, Source
from ._stream import Records
from ._verbs import Cleaned, align, build, clean, clusters, history, pairs, run, search, table

__version__ = "0.2.0"

__all__ = [
    "Account",
    "AlignedPair",
    "Cleaned",
    "Cluster",
    "CountedWords",
    "DedupError",
    "DedupWarning",
    "Dropped",
    "DroppedMember",
    "HistoryAnswer",
    "HistoryMatch",
    "Match",
    "Pair",
    "Passage",
    "Paths",
    "Records",
    "Source",
    "TableRow",
    "align",
    "build",
    "clean",
    "clusters",
    "history",
    "pairs",
    "program_path",
    "run",
    "search",
    "table",
]
