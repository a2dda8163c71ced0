"""One function for each question."""

import json
import tempfile
from pathlib import Path
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Union

from ._program import Process
from ._records import Account, AlignedPair, Cluster, Dropped, HistoryAnswer, Match, Pair, TableRow
from ._source import Paths, Source, Table, as_paths
from ._stream import Records

#: A flag of a program: ``max_df=10`` is ``--max-df 10``, ``hidden=True`` is ``--hidden``, a list repeats the flag.
Option = Union[None, bool, int, float, str, Path, Sequence[Union[str, Path]]]


def pairs(
    source: Source,
    *,
    threshold: Optional[float] = None,
    score: Optional[str] = None,
    preset: Optional[str] = None,
    passages: bool = False,
    **options: Option,
) -> Records[Pair]:
    """Every pair of documents that share enough text, exactly; nothing is missed at the threshold.

    ``source`` is an index, documents, or a table. ``threshold`` belongs to ``score`` (jaccard 0.1 by default).
    ``passages=True`` adds what they share, from where to where. Any other flag of ``dedup-extract pairs`` is an option.
    """
    chosen = dict(options, threshold=threshold, score=score, preset=preset, passages=passages)
    # With passages, a table has a row for each passage.
    return _extract("pairs", source, chosen)


def table(
    source: Source,
    *,
    top: Optional[int] = None,
    threshold: Optional[float] = None,
    since: Union[None, int, str] = None,
    **options: Option,
) -> Records[TableRow]:
    """The most similar documents of each document; with ``since``, what changed in an index since a commit or pin."""
    return _extract("table", source, dict(options, top=top, threshold=threshold, since=since))


def clusters(
    source: Source,
    *,
    threshold: Optional[float] = None,
    score: Optional[str] = None,
    keep: Optional[str] = None,
    **options: Option,
) -> Records[Cluster]:
    """Groups of documents that are connected by pairs, and what each of them duplicates."""
    return _extract("clusters", source, dict(options, threshold=threshold, score=score, keep=keep))


def search(
    source: Source,
    documents: Source = None,
    *,
    text: Optional[str] = None,
    top: Optional[int] = None,
    threshold: Optional[float] = None,
    score: Optional[str] = None,
    passages: bool = False,
    **options: Option,
) -> Records[Match]:
    """The documents of ``source`` that share text with each of ``documents``, or with a ``text``; the best first."""
    if (documents is None) == (text is None):
        raise TypeError("search() needs documents or a text")
    chosen = dict(options, top=top, threshold=threshold, score=score, passages=passages)
    if text is None:
        asked = _Input(documents, chosen)
    else:
        fields = {_field(chosen, "id_field", "id"): "text", _field(chosen, "text_field", "text"): text}
        asked = _Input([fields], chosen)
    given = _Input(source, chosen)

    def arguments(directory: Path) -> List[str]:
        paths = given.paths(directory, "documents")
        if len(paths) != 1:
            raise ValueError(f"search() takes one index, directory, file or table, not {len(paths)} paths")
        return [*_flags(chosen), "-q", "--", *paths, *asked.paths(directory, "asked")]

    return Records("dedup-query", arguments, has_parquet=False)


def align(
    a: Union[str, Path], b: Union[str, Path], *, chars: bool = True, preset: Optional[str] = None, **options: Option
) -> AlignedPair:
    """The passages that two files share. Offsets count characters of the text, as in ``str``; ``chars=False``: bytes."""
    chosen = dict(options, chars=chars, preset=preset)
    arguments = ["align", *_flags(chosen), "-q", "--", str(a), str(b)]
    found: List[AlignedPair] = list(Records("dedup-query", lambda _: arguments))
    return found[0] if found else {"a": str(a), "b": str(b), "a_in_b": 0.0, "b_in_a": 0.0, "passages": []}


def history(
    directory: Union[str, Path],
    source: Source,
    *,
    min_similarity: Optional[float] = None,
    top: Optional[int] = None,
    add: bool = True,
    **options: Option,
) -> Records[HistoryAnswer]:
    """Compares each document with all that came before it in the history of ``directory``, and adds it (``add``)."""
    chosen = dict(options, min_similarity=min_similarity, top=top, no_add=not add)
    given = _Input(source, chosen)

    def arguments(temporary: Path) -> List[str]:
        return ["history", *_flags(chosen), "-q", "--", str(directory), *given.paths(temporary, "documents")]

    return Records("dedup-query", arguments, has_parquet=False)


def build(index: Union[str, Path], source: Source, *, preset: Optional[str] = None, **options: Option) -> Path:
    """Makes an index of documents, for many questions about them. Returns its path."""
    chosen = dict(options, preset=preset)
    given = _Input(source, chosen)
    with tempfile.TemporaryDirectory(prefix="dedup-python-") as name:
        flags = [*_flags(chosen), "-q", "-o", str(index)]
        _finish("dedup-index", ["build", *flags, "--", *given.paths(Path(name), "documents")], Path(name))
    return Path(index)


class Cleaned(NamedTuple):
    """What became of a collection that was cleaned."""

    #: What stays, as the kind of table that was given; None for files, which are in the output directory.
    table: Any
    #: A record for each document that went.
    dropped: List[Dropped]
    #: What was read, kept, dropped and cut.
    account: Account


def clean(
    source: Source,
    output: Union[None, str, Path] = None,
    *,
    near: Union[None, float, bool] = None,
    cut_spans: Optional[int] = None,
    keep: Optional[str] = None,
    mode: Optional[str] = None,
    against: Union[None, Paths] = None,
    **options: Option,
) -> Cleaned:
    """The collection without what is there twice.

    Files are written under their names into the directory ``output``. A table needs no ``output``: ``Cleaned.table``
    is what is left of it. ``near=False`` drops only exact duplicates; ``cut_spans=50`` cuts out repeated passages.
    """
    chosen = dict(options, cut_spans=cut_spans, keep=keep, mode=mode)
    chosen["near"] = "off" if near is False else None if near is True else near
    chosen["against"] = None if against is None else as_paths(against)
    given = _Input(source, chosen)
    if given.table is None and output is None:
        raise TypeError("clean() needs an output directory for files")
    with tempfile.TemporaryDirectory(prefix="dedup-python-") as name:
        directory = Path(name)
        target = Path(output) if output is not None else directory / "output"
        report, dropped = directory / "report.json", directory / "dropped.jsonl"
        paths = given.paths(directory, "documents")
        if given.table is not None:
            # Reported names and the file in the output have no directory then.
            paths = [str(Path(path)) for path in paths]
        flags = [*_flags(chosen), "-q", "-o", str(target), "--report", str(report), "--dropped", str(dropped)]
        _finish("dedup-extract", ["clean", *flags, "--", *paths], directory)
        return Cleaned(
            table=None if given.table is None else given.table.read_again(_only_file(target, given.table.suffix)),
            dropped=[json.loads(line) for line in dropped.read_text(encoding="utf-8").splitlines()],
            account=json.loads(report.read_text(encoding="utf-8")),
        )


def run(program: str, arguments: Sequence[Union[str, Path]]) -> Records[Mapping[str, Any]]:
    """The records of any program and verb that writes NDJSON: ``run("dedup-extract", ["blots", "my.idx"])``."""
    given = [str(argument) for argument in arguments]
    return Records(program, lambda _: given)


class _Input:
    """Documents, and their fields if they are a table."""

    def __init__(self, source: Source, options: Mapping[str, Any]) -> None:
        self._paths = as_paths(source)
        self.table: Optional[Table] = None
        if self._paths is None:
            self.table = Table(source, _field(options, "id_field", "id"), _field(options, "text_field", "text"))

    def paths(self, directory: Path, name: str) -> List[str]:
        """Paths for the command line. A table is written into the directory."""
        if self.table is None:
            return self._paths or []
        return [self.table.write(directory / (name + self.table.suffix))]


def _extract(verb: str, source: Source, options: Mapping[str, Any]) -> Records[Any]:
    given = _Input(source, options)

    def arguments(directory: Path) -> List[str]:
        return [verb, *given.paths(directory, "documents"), "-q", *_flags(options)]

    return Records("dedup-extract", arguments)


def _finish(program: str, arguments: List[str], directory: Path) -> None:
    process = Process(program, arguments, directory)
    try:
        process.output.read()
        process.finish()
    finally:
        process.stop()


def _field(options: Mapping[str, Any], name: str, default: str) -> str:
    return str(options.get(name) or default)


def _flags(options: Mapping[str, Any]) -> List[str]:
    flags: List[str] = []
    for name, value in options.items():
        flag = f"-{name}" if len(name) == 1 else "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        values = value if isinstance(value, (list, tuple)) else [value]
        for one in values:
            # A value of its own argument, so that one that begins with a dash is no flag.
            flags.append(flag if one is True else f"{flag}={one}" if flag.startswith("--") else f"{flag}{one}")
    return flags


def _only_file(directory: Path, suffix: str) -> Path:
    (file,) = directory.rglob("*" + suffix)
    return file
