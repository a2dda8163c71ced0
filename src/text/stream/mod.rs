mod blots;
mod header;
mod line;
mod pieces;
mod print;
mod reader;
mod record;
mod tokens;
mod writer;

pub use blots::Blots;
pub use header::{Header, Kind, MAGIC, MAX_HEADER_BYTES, VERSION};
pub use line::{Line, LineParser, Parsed, field_names, parse_record};
pub use pieces::Out;
pub use print::{PRINT_BITS, PRINT_BYTES, Print};
pub use reader::{Block, BlockReader};
pub use record::{BlotCodec, PrintCodec, Printed, Record, TokenCodec};
pub use tokens::{Span, Tokens};
pub use writer::{Batch, Form, Large, StreamWriter};
