mod blots;
mod header;
mod line;
mod output;
mod print;
mod reader;
mod record;
mod tokens;
mod writer;

pub use blots::Blots;
pub use header::{Header, MAGIC, MAX_HEADER_BYTES, StreamKind, VERSION};
pub use line::{Line, LineParser, Parsed, field_names, parse_record};
pub use output::RecordOutput;
pub use print::{PRINT_BITS, PRINT_BYTES, Print};
pub use reader::{BlockReader, StreamBlock};
pub use record::{BlotCodec, PrintCodec, Printed, Record, TokenCodec};
pub use tokens::{Span, Tokens};
pub use writer::{Batch, Form, LargeContent, StreamWriter};
