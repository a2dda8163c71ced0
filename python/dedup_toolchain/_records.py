"""What the programs write, record by record. The manual pages describe each field."""

from typing import Dict, List, Optional, TypedDict


class Passage(TypedDict, total=False):
    """A passage of two documents. Offsets count bytes, or characters with ``chars=True``."""

    a: List[int]
    b: List[int]
    tokens: int
    score: float
    p_value: float
    kind: str
    reverse: bool


class CountedWords(TypedDict):
    """How the words of a document were counted, if some do not count."""

    words: int
    excluded: Dict[str, int]
    counted: int
    matched: int
    share: float


class _Aligned(TypedDict, total=False):
    a_words: CountedWords
    b_words: CountedWords
    passages: List[Passage]


class _Estimated(_Aligned, total=False):
    estimate: bool


class Pair(_Estimated):
    """Two documents that share text."""

    a: str
    b: str
    shared: int
    a_in_b: float
    b_in_a: float
    score: float


class Match(_Estimated):
    """A document that shares text with one that was asked about."""

    query: str
    rank: int
    doc: str
    shared: int
    a_in_b: float
    b_in_a: float
    score: float


class AlignedPair(_Aligned):
    """Two documents and the passages that they share."""

    a: str
    b: str
    a_in_b: float
    b_in_a: float


class _RowExtras(TypedDict, total=False):
    rank: int
    change: str
    estimate: bool


class TableRow(_RowExtras):
    """A row of the table of the most similar documents."""

    a: str
    b: str
    shared: int
    a_in_b: float
    b_in_a: float


class DroppedMember(TypedDict):
    """A document of a cluster that another one makes superfluous."""

    doc: str
    duplicate_of: str
    shared: int
    score: float


class _ClusterExtras(TypedDict, total=False):
    estimate: bool


class Cluster(_ClusterExtras):
    """Documents that are connected by pairs."""

    cluster: int
    size: int
    kept: str
    members: List[str]
    dropped: List[DroppedMember]


class HistoryMatch(TypedDict):
    """An earlier document."""

    doc: str
    similarity: float


class _HistoryExtras(TypedDict, total=False):
    matches: List[HistoryMatch]
    added: bool
    missing: List[str]


class HistoryAnswer(_HistoryExtras):
    """The most similar document that came before."""

    doc: str
    best: Optional[HistoryMatch]


class _DroppedExtras(TypedDict, total=False):
    estimate: bool


class Dropped(_DroppedExtras):
    """A document that went, and the one that stayed for it."""

    id: str
    reason: str
    duplicate_of: str
    share: float
    shared: int
    file: str
    record: int
    duplicate_of_file: Optional[str]


#: The account of a run as JSON: what was read, kept, dropped and cut.
Account = Dict[str, object]
