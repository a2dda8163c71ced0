"""The Python module against the programs. tests/it/python.rs runs this; DEDUP_TOOLCHAIN_BIN says where the programs are."""

import gc
import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any, Dict, List

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import dedup_toolchain as dedup  # noqa: E402

SHARED = (
    "the keeper of the light wrote every evening into a large black book what ships had passed and how the wind had "
    "turned since noon"
)


def text(own: str) -> str:
    words = " ".join(f"{own}{number}" for number in range(12))
    return f"{own} begins. {SHARED}, and {words}."


def rows() -> List[Dict[str, Any]]:
    """Three documents: the first two are the same, the third shares a sentence."""
    return [
        {"id": "anna", "text": text("anna"), "year": 2019, "tags": ["x"]},
        {"id": "bert", "text": text("anna"), "year": 2021, "tags": []},
        {"id": "cleo ✓", "text": text("cleo"), "year": 2020, "tags": ["y", "z"]},
    ]


class InDirectory(unittest.TestCase):
    """Each test has a directory of its own, for documents and for temporary files."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.temporary = self.directory / "tmp"
        self.temporary.mkdir()
        before = (tempfile.tempdir, os.environ.get("TMPDIR"), os.environ.get("XDG_CACHE_HOME"))
        tempfile.tempdir = os.environ["TMPDIR"] = str(self.temporary)
        os.environ["XDG_CACHE_HOME"] = str(self.directory / ".cache")

        def restore() -> None:
            tempfile.tempdir = before[0]
            for name, value in zip(("TMPDIR", "XDG_CACHE_HOME"), before[1:]):
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

        self.addCleanup(restore)

    def write_documents(self) -> Path:
        documents = self.directory / "docs"
        documents.mkdir()
        for row in rows():
            (documents / f"{row['id']}.txt").write_text(row["text"], encoding="utf-8")
        return documents

    def tearDown(self) -> None:
        gc.collect()
        self.assertEqual(os.listdir(self.temporary), [], "temporary files are left")

    def printed(self, program: str, *arguments: str) -> List[Any]:
        """What the program itself says."""
        command = [dedup.program_path(program), *arguments]
        output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
        return [json.loads(line) for line in output.splitlines()]


class Questions(InDirectory):
    def test_pairs_of_files_are_those_of_the_program(self) -> None:
        documents = self.write_documents()
        found = list(dedup.pairs(documents, threshold=0.1, score="jaccard"))
        self.assertEqual(len(found), 3)
        self.assertEqual(found, self.printed("dedup-extract", "pairs", str(documents), "-q", "--threshold", "0.1"))
        self.assertEqual(list(dedup.pairs([str(documents)], threshold=0.99, score="jaccard")), [found[0]])

    def test_pairs_of_all_kinds_of_tables_are_the_same(self) -> None:
        import pandas
        import pyarrow

        arrow = pyarrow.Table.from_pylist(rows())
        expected = [(pair["a"], pair["b"]) for pair in dedup.pairs(rows())]
        self.assertEqual(expected, [("anna", "bert"), ("anna", "cleo ✓"), ("bert", "cleo ✓")])
        batch = arrow.to_batches()[0]
        reader = pyarrow.RecordBatchReader.from_batches(arrow.schema, [batch])
        for table in (arrow, batch, reader, pandas.DataFrame(rows()), tuple(rows()), (row for row in rows())):
            found = [(pair["a"], pair["b"]) for pair in dedup.pairs(table)]
            self.assertEqual(found, expected, type(table))

    def test_rows_without_ids_have_their_numbers(self) -> None:
        import pyarrow

        bare = [{"body": row["text"]} for row in rows()]
        for table in (bare, pyarrow.Table.from_pylist(bare)):
            found = [(pair["a"], pair["b"]) for pair in dedup.pairs(table, text_field="body")]
            self.assertEqual(found, [("0", "1"), ("0", "2"), ("1", "2")])

    def test_passages_and_characters(self) -> None:
        a, b = self.directory / "a.txt", self.directory / "b.txt"
        a.write_text(f"žluťoučký kůň. {SHARED}", encoding="utf-8")
        b.write_text(SHARED, encoding="utf-8")
        (passage,) = dedup.align(a, b)["passages"]
        start, end = passage["a"]
        self.assertEqual(a.read_text(encoding="utf-8")[start:end], SHARED)
        (pair,) = dedup.pairs([a, b], passages=True, chars=True)
        self.assertEqual(pair["passages"], [passage])
        b.write_text("something else", encoding="utf-8")
        self.assertEqual(dedup.align(a, b)["passages"], [])

    def test_an_index_answers_questions(self) -> None:
        index = dedup.build(self.directory / "my.idx", rows(), preset="text")
        self.assertEqual(index, self.directory / "my.idx")
        found = list(dedup.search(index, text=SHARED, top=2))
        self.assertEqual([match["query"] for match in found], ["text", "text"])
        self.assertEqual([match["rank"] for match in found], [1, 2])
        asked = list(dedup.search(rows(), [{"id": "mine", "text": SHARED}]))
        self.assertEqual({match["doc"] for match in asked}, {"anna", "bert", "cleo ✓"})
        self.assertEqual(list(dedup.search(index, text="something else altogether")), [])
        self.assertEqual(len(list(dedup.table(index, top=1))), 3)
        (cluster,) = dedup.clusters(index, threshold=0.9)
        self.assertEqual((cluster["kept"], cluster["members"]), ("anna", ["anna", "bert"]))
        (group,) = dedup.run("dedup-extract", ["exact", index, "-q"])
        self.assertEqual(group["docs"], ["anna", "bert"])

    def test_a_history_remembers(self) -> None:
        seen = self.directory / "seen"
        first = list(dedup.history(seen, rows()))
        self.assertEqual([answer["best"] for answer in first][0], None)
        self.assertEqual(first[1]["best"], {"doc": "anna", "similarity": 1})
        again = list(dedup.history(seen, [{"id": "new", "text": text("anna")}], add=False))
        self.assertEqual([answer["doc"] for answer in again], ["new"])

    def test_tables_of_arrow_and_pandas(self) -> None:
        pairs = dedup.pairs(rows()).arrow()
        self.assertEqual(pairs.column_names[:6], ["a", "b", "shared", "a_in_b", "b_in_a", "score"])
        self.assertEqual(pairs.select(["a", "b"]).to_pylist()[0], {"a": "anna", "b": "bert"})
        frame = dedup.pairs(rows()).pandas()
        self.assertEqual(list(frame["shared"]), pairs["shared"].to_pylist())
        nothing = dedup.pairs([{"id": "a", "text": "alone"}]).arrow()
        self.assertEqual((nothing.num_rows, nothing.column_names), (0, pairs.column_names))
        self.assertEqual(dedup.search(rows(), text=SHARED).arrow().num_rows, 3)
        started = dedup.pairs(rows())
        next(started)
        with self.assertRaisesRegex(ValueError, "some were read already"):
            started.arrow()
        started.close()


class Cleaning(InDirectory):
    def test_tables_come_back_as_they_were(self) -> None:
        import pandas
        import pyarrow

        kept = [rows()[0], rows()[2]]
        arrow = pyarrow.Table.from_pylist(rows())
        cleaned = dedup.clean(arrow)
        self.assertEqual(cleaned.table.schema, arrow.schema)
        self.assertEqual(cleaned.table.to_pylist(), kept)
        self.assertEqual([(d["id"], d["duplicate_of"], d["reason"]) for d in cleaned.dropped], [("bert", "anna", "exact")])
        self.assertEqual(dedup.clean(rows()).table, kept)
        frame = dedup.clean(pandas.DataFrame(rows()).drop(columns="tags")).table
        self.assertEqual(list(frame["year"]), [2019, 2020])
        self.assertEqual(list(frame.columns), ["id", "text", "year"])

    def test_rows_without_ids_get_none(self) -> None:
        import pyarrow

        bare = [{"text": row["text"]} for row in rows()]
        kept = [bare[0], bare[2]]
        for table in (bare, pyarrow.Table.from_pylist(bare)):
            cleaned = dedup.clean(table)
            found = cleaned.table if isinstance(cleaned.table, list) else cleaned.table.to_pylist()
            self.assertEqual(found, kept)
            self.assertEqual([(d["id"], d["duplicate_of"]) for d in cleaned.dropped], [("1", "0")])

    def test_options_choose_what_stays(self) -> None:
        self.assertEqual([row["id"] for row in dedup.clean(rows(), keep="year:max").table], ["bert", "cleo ✓"])
        self.assertEqual(len(dedup.clean(rows(), near=0.1).table), 1)
        self.assertEqual(len(dedup.clean(rows(), near=False).table), 2)
        cut = dedup.clean(rows(), cut_spans=20, near=False).table
        self.assertLess(len(cut[1]["text"]), len(rows()[2]["text"]))
        against = self.directory / "old.txt"
        against.write_text(rows()[2]["text"])
        self.assertEqual([row["id"] for row in dedup.clean(rows(), against=against, near=0.9).table], ["anna"])

    def test_files_are_written_into_a_directory(self) -> None:
        documents = self.write_documents()
        cleaned = dedup.clean(documents, self.directory / "clean")
        self.assertIsNone(cleaned.table)
        left = sorted(path.name for path in (self.directory / "clean").rglob("*.txt"))
        self.assertEqual(left, ["anna.txt", "cleo ✓.txt"])
        self.assertIn("kept", cleaned.account)
        with self.assertRaisesRegex(TypeError, "needs an output directory"):
            dedup.clean(documents)


class Failures(InDirectory):
    def test_messages_become_exceptions(self) -> None:
        with self.assertRaises(dedup.DedupError) as caught:
            list(dedup.pairs(self.directory / "missing"))
        self.assertEqual((caught.exception.program, caught.exception.status), ("dedup-extract", 2))
        self.assertRegex(str(caught.exception), "^dedup-extract: .*missing: no such file or directory")
        with self.assertRaisesRegex(dedup.DedupError, "--threshold"):
            list(dedup.pairs(rows(), threshold=50, score="jaccard"))
        with self.assertRaisesRegex(dedup.DedupError, "--no-such-flag"):
            list(dedup.pairs(rows(), no_such_flag=True))
        with self.assertRaises(dedup.DedupError):
            dedup.clean(rows(), keep="nonsense")
        with self.assertRaises(dedup.DedupError):
            dedup.build("/proc/nowhere.idx", rows())

    def test_records_before_an_error_are_given(self) -> None:
        documents = self.write_documents()
        unreadable = documents / "broken.docx"
        unreadable.write_bytes(b"PK\x03\x04 and no more")
        records = dedup.pairs(documents)
        got = []
        with self.assertRaisesRegex(dedup.DedupError, "broken.docx"):
            for pair in records:
                got.append(pair)
        self.assertEqual(len(got), 3)
        self.assertEqual(list(records), [])
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            self.assertEqual(list(dedup.pairs(documents, skip_bad=True)), got)

    def test_bad_tables_are_named(self) -> None:
        import pyarrow

        for table, error, message in (
            ([{"id": "a"}], ValueError, "row 0 has no text in 'text'"),
            ([{"id": "a", "text": None}], ValueError, "row 0 has no text in 'text': None"),
            ([1, 2], TypeError, "row 0 is of type int"),
            (17, TypeError, "not int"),
            (pyarrow.table({"body": ["x"]}), ValueError, "no column 'text', only"),
        ):
            with self.assertRaisesRegex(error, message):
                dedup.pairs(table)
        with self.assertRaisesRegex(TypeError, "needs documents or a text"):
            dedup.search(rows())

    def test_a_missing_program_is_an_error(self) -> None:
        before = os.environ["DEDUP_TOOLCHAIN_BIN"]
        self.addCleanup(os.environ.__setitem__, "DEDUP_TOOLCHAIN_BIN", before)
        os.environ["DEDUP_TOOLCHAIN_BIN"] = str(self.directory)
        with self.assertRaisesRegex(dedup.DedupError, "dedup-extract: not found in .*DEDUP_TOOLCHAIN_BIN"):
            list(dedup.pairs(rows()))

    def use_program(self, script: str) -> None:
        """Puts a program into the place of dedup-extract."""
        programs = self.directory / "bin"
        programs.mkdir()
        program = programs / "dedup-extract"
        program.write_text("#!/bin/sh\n" + script)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        before = os.environ["DEDUP_TOOLCHAIN_BIN"]
        self.addCleanup(os.environ.__setitem__, "DEDUP_TOOLCHAIN_BIN", before)
        os.environ["DEDUP_TOOLCHAIN_BIN"] = str(programs)

    def test_what_a_successful_program_says_is_a_warning(self) -> None:
        self.use_program("echo '{\"a\":1}'; echo 'dedup-extract: mind this' >&2")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(len(list(dedup.pairs("x"))), 1)
        self.assertEqual([(w.category, str(w.message)) for w in caught], [(dedup.DedupWarning, "dedup-extract: mind this")])

    def test_a_killed_program_is_an_error(self) -> None:
        self.use_program("kill -9 $$")
        with self.assertRaisesRegex(dedup.DedupError, "dedup-extract: ended by SIGKILL"):
            list(dedup.pairs("x"))

    def ensure_stops(self, stop: Any) -> None:
        """A program that writes records for ever ends when its records are closed."""
        pid = self.directory / "pid"
        self.use_program(f"echo $$ >{pid}; while :; do echo '{{\"a\":1}}'; done")
        records = dedup.pairs("x")
        self.assertEqual(next(records), {"a": 1})
        number = int(pid.read_text())
        stop(records)
        del records
        gc.collect()
        with self.assertRaises(ProcessLookupError):
            os.kill(number, 0)

    def test_close_stops_the_program(self) -> None:
        def close(records: Any) -> None:
            records.close()
            self.assertEqual(list(records), [])

        self.ensure_stops(close)

    def test_leaving_a_block_stops_the_program(self) -> None:
        def leave(records: Any) -> None:
            with records:
                pass

        self.ensure_stops(leave)

    def test_nothing_runs_before_the_first_record(self) -> None:
        records = dedup.pairs(self.directory / "missing")
        records.close()
        self.assertEqual(list(records), [])

    def test_forgetting_stops_the_program(self) -> None:
        """At once, without the garbage collector."""
        gc.disable()
        self.addCleanup(gc.enable)
        pid = self.directory / "pid"
        self.use_program(f"echo $$ >{pid}; while :; do echo '{{\"a\":1}}'; done")
        next(dedup.pairs("x"))
        with self.assertRaises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


class Package(unittest.TestCase):
    def test_the_version_is_that_of_the_programs(self) -> None:
        manifest = (ROOT / "Cargo.toml").read_text()
        self.assertIn(f'\nversion = "{dedup.__version__}"\n', manifest)

    def test_every_name_is_exported(self) -> None:
        for name in dedup.__all__:
            self.assertTrue(hasattr(dedup, name), name)


if __name__ == "__main__":
    unittest.main()
