//! Blots that a number divides.
//!
//! Whether a blot is chosen depends on nothing else, so what is chosen in one document is chosen in all. But no
//! run of shared text is long enough to be sure of a chosen blot.

use super::Select;
use crate::text::stream::{Blots, Tokens};

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
