//! What dedup-extract can write.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Every pair of documents, once
    Pairs,
    /// The most similar documents of each document, both ways
    Table,
    /// Groups that hang together by pairs, over any number of steps
    Clusters,
    /// Groups of documents with the same tokens
    Exact,
    /// The pairs as a graph
    Graph,
    /// Blots by falling number of documents
    Blots,
    /// Of each document of PATH… the byte ranges that an earlier one has
    Spans,
    /// What several documents share, the longest and most frequent first, with all places
    Passages,
}

/// As it is given on the command line.
pub(super) fn name(kind: Kind) -> String {
    kind.to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}
