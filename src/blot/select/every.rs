//! Every Nth blot of a document, the first one included.
//!
//! Only for documents that are equal from the start: an inserted word shifts all blots that follow.

use super::Select;
use crate::text::stream::{Blots, Tokens};

/// Selects every Nth blot.
pub struct Every(pub u64);

impl Select for Every {
    fn reject(&self, _: &Tokens, _: &Blots, keep: &mut [bool]) {
        keep.iter_mut()
            .zip(0_u64..)
            .for_each(|(keep, index)| *keep &= index.is_multiple_of(self.0));
    }

    fn name(&self) -> String {
        format!("every:{}", self.0)
    }
}
