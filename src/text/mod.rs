//! Documents and tokens.

/// Documents in: files of many kinds, directories, archives and stdin, compressed or not.
pub mod corpus;
pub mod language;
pub mod scheme;
/// Records on the wire: NDJSON and binary twins, headers, checksums, end records.
pub mod stream;
pub mod token;
