//! dedup-extract clean: the files of a collection without what is there twice.

mod account;
mod damage_watch;
mod disk_space;
mod input;
mod rules;
mod run;
mod run_state;

pub use account::print_account;
pub use rules::{RuleArgs, default_blots, ensure_shards};
pub use run::CleanArgs;
pub use run_state::ensure_empty;

/// The section of the manual.
pub const CLEAN: &[&str] = &[
    "clean writes the files of a collection again, with the same names, order and packing, without documents and passages that are there twice. Every record that stays keeps its bytes, \
                 but for passages that are cut out of it; a Parquet file keeps its schema, metadata, codecs and all other columns. A file that is one document is copied, or left out. The input is never written to.",
    "Documents are visited in order of preference (--keep, --prefer), and each is decided when it is visited. It goes if a document that stays has the same tokens (exact), or if at least 80 % (--near) of its own distinct blots are in \
                 a single document that stays (near). So a long document never goes because a short one is in it, there are no chains, and what duplicate_of names has stayed. With --by jaccard, what both share is divided by what either has. --keep none drops \
                 all copies: a document goes if any other one has enough of it. Unless an index is given, blots are of 5 tokens (-k).",
    "--cut-spans N cuts sequences of N tokens or more out of every document but the first one, in order of preference, that has them. A cut starts with a token and ends before the next token that stays. A document of which \
                 fewer than --min-left tokens are left goes (short), unless it keeps a passage that was cut out of others. Web archives, FASTA, office documents, packed texts and files in other encodings than UTF-8 cannot be cut: their documents stay whole, and are counted.",
    "--against compares the documents also with another collection: an index, or documents, such as an earlier release or evaluation sets. Its documents come before all others in the order of preference, and are not written. A document that goes because of it has the \
                 reason against. With --cut-spans, passages of 13 tokens (--against-span) that are in one document of it are cut out: the length at which GPT-3 looked for overlap (Brown et al. 2020, appendix C). Line breaks, case and punctuation make no difference. \
                 A document of the other collection with fewer tokens than that is not found inside of others, and the number of such documents is printed.",
    "A second run over the output changes nothing, except after cuts: what stood before and after a cut then forms new sequences of N tokens, and a document that was cut has a smaller share of what it had in common with others, or a larger one. A second run finds these.",
    "Files are written beside and renamed, one at a time. What is needed to go on after an interruption is in DIR/.dedup-clean: the same command goes on where it was, and once it is done, it has nothing to do. It needs disk space there, or in --tmp-dir, for an index of \
                 about a third of the unpacked text, as much as the text again if --memory does not hold its windows, and as much again with --cut-spans; the run says how much before it starts, and refuses to start if there is less. A file that changes meanwhile ends the run.",
    "A line or row that is no document stays, and is named; the status is 2 then (0 with --skip-bad). If a file cannot be read to its end, nothing is written, as documents might go because of others in it; with --skip-bad \
                 such a file takes no part, and is not written. With an index that was made before (clean IDX SHARD…), documents are found in it by their ids: a document that it does not have, or has with another text, stays and is counted, and so does the second one of an id.",
    "Without -o, records go to stdout, unpacked; all files must have a record a line. stdin (-) is copied to a temporary file first, because a document may go because of one that comes later, and has to be complete before the first line is written. A stream that \
                 never ends is for dedup-query history --only-new: it passes each new document on at once, compares prints instead of blots, and keeps what comes first.",
    "--dropped FILE gets a record for each document that goes: id, reason (exact, near, against, short), duplicate_of, share (of its blots, or tokens that were cut out), shared (blots), file, record, duplicate_of_file. --cuts FILE gets one for each passage: id, start, end (bytes of the text), \
                 tokens, duplicate_of, file, record, duplicate_of_file. Both are NDJSON, or TSV, CSV or Parquet by the name of the file. With --mode annotate every record stays, and gets a field dedup: keep, and reason, duplicate_of, share, or spans where there are any. --report FILE gets the account as JSON.",
];
