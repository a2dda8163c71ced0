//! How results are written.
//!
//! A record is a JSON object a line, or a line of fields between tabs below a line of their names. Numbers have six decimals at most, and no zeros at their end:
//! 1, 0.5, 0.333333. What could end a cell or a line, command a terminal or turn text around is escaped, in ids and in texts: see
//! [`crate::base::codec::put_escaped`].
//!
//! For people there are pages, with the texts side by side: [`html`].

mod excerpt;
mod graph;
pub mod html;
mod passage;
mod plot;
mod record;
mod xml;

pub use excerpt::Excerpts;
pub use graph::{Graph, GraphFormat};
pub use passage::{put_pan_xml, put_passages, put_tally, told_tally};
pub use plot::plot_passes;
pub use record::{Format, Ids, Value, put_count, put_id, put_names, put_number, put_record};
