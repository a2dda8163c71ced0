//! Says that blots are too narrow for what an index holds.

use super::{output::grouped, progress::say};
use crate::{
    base::{error::Result, num::ToF64},
    index::{Index, WidthFit},
};
use std::path::Path;

/// Prints a line if the blots of an index are too narrow.
pub fn warn_of_width(program: &str, index: &Index, name: &str, is_quiet: bool) -> Result<()> {
    if is_quiet {
        return Ok(());
    }
    let fit = WidthFit::of(index)?;
    if fit.too_narrow {
        say(&format!("{program}: {name}: {}", warning(&fit)));
    }
    Ok(())
}

/// The same for an index that was just written.
pub fn warn_of_written(program: &str, directory: &Path, is_quiet: bool) -> Result<()> {
    if is_quiet {
        return Ok(());
    }
    let name = directory.display().to_string();
    warn_of_width(program, &Index::open(directory)?, &name, is_quiet)
}

/// What is wrong with the width, in numbers, and what would do.
pub fn warning(fit: &WidthFit) -> String {
    format!(
        "{}; make the index again with --bits {}",
        description(fit),
        fit.advised_bits
    )
}

/// What is wrong with the width, in numbers.
pub fn description(fit: &WidthFit) -> String {
    format!(
        "blots of {} bits are too narrow for {} postings: expect {} matches by chance ({:.1} % of the postings), \
         which cost time and memory",
        fit.bits,
        grouped(fit.postings),
        grouped(fit.chance_matches),
        100.0 * fit.chance_matches.to_f64() / fit.postings.max(1).to_f64(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_has_the_numbers() {
        assert_eq!(
            warning(&WidthFit::new(24, 1_000_000)),
            "blots of 24 bits are too narrow for 1,000,000 postings: expect 29,802 matches by chance (3.0 % of the postings), \
             which cost time and memory; make the index again with --bits 40"
        );
    }
}
