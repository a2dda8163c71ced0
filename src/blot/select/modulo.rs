//! Blots that are multiples of a number.
//!
//! The choice depends on the blot only, so a blot is selected in all documents or in none. But no
//! length of shared text guarantees a selected blot.

use super::Select;
use crate::text::stream::{Blots, Tokens};

/// Selects the multiples of a number.
pub struct Modulo(pub u64);

impl Select for Modulo {
    fn reject(&self, _: &Tokens, blots: &Blots, keep: &mut [bool]) {
        blots
            .values
            .iter()
            .zip(keep)
            .for_each(|(value, keep)| *keep &= value.is_multiple_of(self.0));
    }

    fn name(&self) -> String {
        format!("mod:{}", self.0)
    }
}
