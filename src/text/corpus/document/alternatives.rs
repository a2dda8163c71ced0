//! `mc:AlternateContent` of office files: the same content for new and for old programs, of which one is read.

use super::xml_text::Visit;

/// For each `AlternateContent` that is open, whether one of its alternatives was taken.
#[derive(Default)]
pub struct Alternatives {
    is_taken: Vec<bool>,
}

impl Alternatives {
    /// Whether to read the element; `None` if it is not about alternatives.
    pub fn open(&mut self, name: &str) -> Option<Visit> {
        match (name, self.is_taken.last_mut()) {
            ("AlternateContent", _) => {
                self.is_taken.push(false);
                Some(Visit::Enter)
            }
            ("Choice" | "Fallback", Some(true)) => Some(Visit::Skip),
            ("Choice" | "Fallback", Some(taken)) => {
                *taken = true;
                Some(Visit::Enter)
            }
            _ => None,
        }
    }

    pub fn close(&mut self, name: &str) {
        if name == "AlternateContent" {
            self.is_taken.pop();
        }
    }
}
