//! The text of a document while it is put together: the body, and what is set aside until the body gets there.

use super::ExtractError;

/// Collects lines. What is written between `begin_…` and `end` is set aside: text boxes until the paragraph around them
/// ends, notes until the body ends.
pub struct TextFlow {
    most_bytes: u64,
    used_bytes: u64,
    /// The body, then each part inside the one before.
    open: Vec<(PartKind, String)>,
    boxes: String,
    notes: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PartKind {
    Body,
    Note,
    TextBox,
}

impl TextFlow {
    pub fn new(most_bytes: u64) -> Self {
        Self {
            most_bytes,
            used_bytes: 0,
            open: vec![(PartKind::Body, String::new())],
            boxes: String::new(),
            notes: String::new(),
        }
    }

    pub fn push(&mut self, text: &str) -> Result<(), ExtractError> {
        self.used_bytes += text.len() as u64;
        if self.used_bytes > self.most_bytes {
            return Err(ExtractError::TooLarge);
        }
        self.current().push_str(text);
        Ok(())
    }

    pub fn push_char(&mut self, c: char) -> Result<(), ExtractError> {
        self.push(c.encode_utf8(&mut [0; 4]))
    }

    /// Ends a line, unless nothing is in it.
    pub fn new_line(&mut self) {
        self.used_bytes += end_line(self.current());
    }

    /// Ends a line, and puts the text boxes of a paragraph of the body after it.
    pub fn end_paragraph(&mut self) {
        self.new_line();
        if self.open.len() == 1 && !self.boxes.is_empty() {
            let boxes = std::mem::take(&mut self.boxes);
            self.current().push_str(&boxes);
        }
    }

    /// Whether white space, or nothing, is in front of what is written next.
    pub fn is_after_space(&mut self) -> bool {
        self.current()
            .chars()
            .next_back()
            .is_none_or(|c| matches!(c, ' ' | '\t' | '\n'))
    }

    pub fn begin_note(&mut self) {
        self.open.push((PartKind::Note, String::new()));
    }

    pub fn begin_box(&mut self) {
        self.open.push((PartKind::TextBox, String::new()));
    }

    /// Ends the note or text box that was begun last.
    pub fn end(&mut self) {
        if self.open.len() == 1 {
            return;
        }
        let Some((kind, mut text)) = self.open.pop() else {
            return;
        };
        self.used_bytes += end_line(&mut text);
        match kind {
            // What stands between the number of a note and its text.
            PartKind::Note => self.notes.push_str(text.trim_start()),
            PartKind::TextBox | PartKind::Body => self.boxes.push_str(&text),
        }
    }

    /// Ends the note that was begun last, and gives its text instead of keeping it.
    pub fn take_note(&mut self) -> String {
        let before = self.notes.len();
        while self.open.len() > 1 {
            self.end();
        }
        let boxes = std::mem::take(&mut self.boxes);
        self.notes.split_off(before) + &boxes
    }

    /// The body, then the notes.
    pub fn finish(mut self) -> Result<String, ExtractError> {
        while self.open.len() > 1 {
            self.end();
        }
        self.end_paragraph();
        let mut text = std::mem::take(self.current());
        text.push_str(&self.notes);
        if self.used_bytes > self.most_bytes {
            return Err(ExtractError::TooLarge);
        }
        Ok(text)
    }

    fn current(&mut self) -> &mut String {
        let last = self.open.len() - 1;
        &mut self.open[last].1
    }
}

/// Ends the last line, and says how many bytes that took.
fn end_line(text: &mut String) -> u64 {
    if text.is_empty() || text.ends_with('\n') {
        return 0;
    }
    text.push('\n');
    1
}
