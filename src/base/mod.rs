//! What every other module uses: errors, numbers, files, codecs, parallel work.

/// Numbers and text as bytes: variable-length integers, bit streams, escapes.
pub mod codec;
pub mod error;
pub mod files;
pub mod ids;
pub mod num;
pub mod parallel;
pub mod setting;
pub mod share;
