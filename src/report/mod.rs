//! How results are written.
//!
//! A result is a value of a type of [`records`] until a [`Sink`] turns it into bytes: NDJSON, TSV,
//! CSV, Parquet, PAN's XML, DOT, GraphML or HTML. Numbers have six decimals at most and no trailing zeros:
//! 1, 0.5, 0.333333. In NDJSON and TSV, characters of ids and texts that could end a cell or a
//! line, command a terminal or turn text around are escaped: see
//! [`crate::base::codec::put_escaped`].
//!
//! For people there are excerpts on a terminal, and pages with the texts side by side: [`html`].

mod decimal;
mod document_ids;
mod excerpt;
pub mod html;
mod packed;
#[cfg(feature = "parquet")]
mod parquet_lines;
#[cfg(feature = "parquet")]
mod parquet_records;
mod record_target;
pub mod records;
mod sink;
mod spex_plot;
mod tally;
mod xml;

pub use crate::base::codec::put_json_string as put_json_text;
pub use decimal::{put_count, put_number, three_digits};
pub use document_ids::{DocumentIds, EncodedIds};
pub use excerpt::Excerpts;
pub use packed::{Packed, PackedRecords};
#[cfg(feature = "parquet")]
pub use parquet_lines::ParquetLines;
pub use record_target::RecordTarget;
pub use sink::{
    Csv, Dot, Format, GraphFormat, Graphml, HtmlPages, Ndjson, PairTexts, PanXml, PanXmlDirectory,
    Parquet, Sink, Tsv, field_names, put_json,
};
pub use spex_plot::plot_passes;
pub use tally::describe_tally;
