//! Errors, and where in the input they are.
//!
//! [`Error`] ends a run. A [`Problem`] is one bad input: it is reported, the rest is processed.

use std::{fmt, io, path::Path, sync::Arc};

/// A result with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error that ends the run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{file}: {cause}")]
    Io {
        /// The path, or a description if the file has none, such as a temporary one.
        file: String,
        /// What the system said.
        cause: io::Error,
    },
    /// A file or stream that is cut, altered or of another program.
    #[error("{place}: {what}")]
    Damaged {
        /// Where the damage was found.
        place: Place,
        /// What is wrong there, with both values where two contradict each other.
        what: String,
    },
    /// Two schemes that cannot be mixed.
    #[error("{place}: scheme is '{found}', expected '{expected}'; {remedy}")]
    Scheme {
        /// The input whose scheme does not fit.
        place: Place,
        /// Its scheme.
        found: String,
        /// The scheme of the other side: the index, or the input before.
        expected: String,
        /// What the user can do, as the end of the message.
        remedy: &'static str,
    },
    /// The output cannot be written; the caller knows which one it is.
    #[error("{0}")]
    Output(io::Error),
    /// Arguments that make no sense together.
    #[error("{0}")]
    Usage(String),
    /// The reader of our output went away: the program ends without a message.
    #[error("closed pipe")]
    ClosedPipe,
}

impl Error {
    /// A file that cannot be read or written.
    pub fn io(file: impl fmt::Display, cause: io::Error) -> Self {
        Self::Io {
            file: file.to_string(),
            cause,
        }
    }

    /// An output that cannot be written.
    pub fn output(source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::BrokenPipe {
            Self::ClosedPipe
        } else {
            Self::Output(source)
        }
    }

    /// Whether the machine failed rather than the request: later, or elsewhere, it may succeed.
    pub fn is_of_machine(&self) -> bool {
        matches!(self, Self::Io { cause, .. } | Self::Output(cause) if is_of_machine(cause))
    }

    /// Something at a place of a file that is not as it should be.
    pub fn damaged(place: Place, what: impl Into<String>) -> Self {
        Self::Damaged {
            place,
            what: what.into(),
        }
    }
}

/// A disk that is full, over quota, read-only, failing or gone; a share that does not answer; too many files open; no memory.
pub fn is_of_machine(error: &io::Error) -> bool {
    use io::ErrorKind::{
        FileTooLarge, NotConnected, OutOfMemory, QuotaExceeded, ReadOnlyFilesystem,
        StaleNetworkFileHandle, StorageFull, TimedOut,
    };
    const CODES: [i32; 9] = [
        libc::EIO,
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOMEM,
        libc::ENOTCONN,
        libc::ETIMEDOUT,
        libc::ENODEV,
        libc::ESTALE,
        libc::EHOSTDOWN,
    ];
    matches!(
        error.kind(),
        StorageFull
            | QuotaExceeded
            | FileTooLarge
            | ReadOnlyFilesystem
            | StaleNetworkFileHandle
            | OutOfMemory
            | NotConnected
            | TimedOut
    ) || error
        .raw_os_error()
        .is_some_and(|code| CODES.contains(&code))
}

/// One input that could not be used.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Where it is.
    pub place: Place,
    /// What is wrong.
    pub what: String,
}

impl Problem {
    /// A problem at a place.
    pub fn new(place: Place, what: impl Into<String>) -> Self {
        Self {
            place,
            what: what.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, Plain(&self.what))
    }
}

/// A file and, where it is known, the line or byte in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The name of the file.
    pub file: Arc<str>,
    /// Where in the file.
    pub at: At,
}

/// A position in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// Not known, or everywhere.
    Whole,
    /// A line, counted from 1.
    Line(u64),
    /// A byte, counted from 0.
    Byte(u64),
}

impl Place {
    /// A whole file.
    pub fn file(file: impl Into<Arc<str>>) -> Self {
        Self {
            file: file.into(),
            at: At::Whole,
        }
    }

    /// A whole file, by its path.
    pub fn path(path: &Path) -> Self {
        Self::file(path.display().to_string())
    }

    /// A line of a file.
    pub fn line(file: &Arc<str>, line: u64) -> Self {
        Self {
            file: file.clone(),
            at: At::Line(line),
        }
    }

    /// A byte of a file.
    pub fn byte(file: &Arc<str>, byte: u64) -> Self {
        Self {
            file: file.clone(),
            at: At::Byte(byte),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            At::Whole => write!(f, "{}", Plain(&self.file)),
            At::Line(line) => write!(f, "{}:{line}", Plain(&self.file)),
            At::Byte(byte) => write!(f, "{}: byte {byte}", Plain(&self.file)),
        }
    }
}

/// Control characters (U+0000–001F, U+007F–009F), separators of lines (U+2028, U+2029), and what sets the direction of text (U+061C, U+200E,
/// U+200F, U+202A–202E, U+2066–206F): no text from outside may bring them to a terminal or into a table.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

/// Text from outside, for a message: unsafe characters are escaped, so that it stays on its line and cannot command a terminal.
struct Plain<'a>(&'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\t' => write!(f, "\\t"),
            '\n' => write!(f, "\\n"),
            '\r' => write!(f, "\\r"),
            c if is_unsafe(c) => write!(f, "\\u{:04x}", u32::from(c)),
            c => write!(f, "{c}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_on_their_line() {
        let problem = Problem::new(
            Place::file("a\nb"),
            "the id '\u{1b}[2J' is odd\u{202e}, é is not",
        );
        assert_eq!(
            problem.to_string(),
            "a\\nb: the id '\\u001b[2J' is odd\\u202e, é is not"
        );
    }
}
