//! How many pairs there are of each similarity.

use super::{
    frame::put,
    number::{count, counted, short_count},
};
use crate::base::num::ToF64;

/// Steps of five percent.
pub const BINS: usize = 20;
/// From this ratio of the highest bar to the lowest on, low bars would vanish; then heights are logarithmic.
const LOG_RATIO: u64 = 40;

/// The bar that a share belongs to.
pub fn bin_of(share: f64) -> usize {
    ((share * BINS.to_f64()) as usize).min(BINS - 1)
}

/// Appends the figure. Pairs without passages, `nothing`, would dwarf the others, so they are mentioned in words.
pub fn put_histogram(out: &mut Vec<u8>, bins: &[u64; BINS], nothing: u64) {
    let most = bins.iter().copied().max().unwrap_or(0).max(1);
    let least = bins.iter().copied().filter(|&pairs| pairs > 0).min();
    let is_log = least.is_some_and(|least| most / least >= LOG_RATIO);
    let pairs: u64 = bins.iter().sum();
    put(
        out,
        "<figure class=\"histogram\">\n<figcaption><h2>How alike the pairs are</h2><p>",
    );
    put(out, &caption(pairs, nothing, is_log));
    put(
        out,
        "</p></figcaption>\n<svg viewBox=\"0 0 430 215\" role=\"group\" aria-label=\"Histogram of similarities\">\n",
    );
    for (bin, &pairs) in bins.iter().enumerate() {
        put_bar(out, bin, pairs, 150.0 * part(pairs, most, is_log));
    }
    put(out, "<path class=\"axis\" d=\"M10 185.5H410\"/>");
    for (x, label) in [
        (10, "0"),
        (110, "25%"),
        (210, "50%"),
        (310, "75%"),
        (410, "100%"),
    ] {
        put(
            out,
            &format!("<text class=\"tick\" x=\"{x}\" y=\"204\">{label}</text>"),
        );
    }
    put(out, "\n</svg>\n</figure>\n");
}

fn caption(pairs: u64, nothing: u64, is_log: bool) -> String {
    let of = match pairs {
        0 => "No pair shares text.".to_owned(),
        1 => "The one pair that shares text.".to_owned(),
        _ => format!("All {} pairs that share text.", count(pairs)),
    };
    let without = match nothing {
        0 => String::new(),
        1 => " Without the one pair that shares nothing.".to_owned(),
        _ => format!(" Without the {} pairs that share nothing.", count(nothing)),
    };
    let scale = if is_log {
        " Each step up is a tenfold number."
    } else {
        ""
    };
    let choose = if pairs > 0 {
        " Choose a bar to see its pairs."
    } else {
        ""
    };
    [&of, &without, scale, choose].concat()
}

/// The height of a bar, from 0 to 1. With a logarithmic scale one pair has a height, too.
fn part(pairs: u64, most: u64, is_log: bool) -> f64 {
    match pairs {
        0 => 0.0,
        _ if is_log => (1.0 + pairs.to_f64().log10()) / (1.0 + most.to_f64().log10()),
        _ => (pairs.to_f64() / most.to_f64()).max(2.0 / 150.0),
    }
}

fn put_bar(out: &mut Vec<u8>, bin: usize, pairs: u64, height: f64) {
    let (x, top) = (10 + 20 * bin, 185.0 - height);
    let range = format!("{} to {}%", 5 * bin, 5 * bin + 5);
    let title = format!("{range}: {}", count(pairs));
    let role = if pairs > 0 {
        format!(
            " role=\"button\" tabindex=\"-1\" aria-pressed=\"false\" aria-label=\"{range}: {}\"",
            counted(pairs, "pair")
        )
    } else {
        String::new()
    };
    put(
        out,
        &format!(
            "<g class=\"bin\" data-bin=\"{bin}\"{role}><title>{title}</title><rect class=\"hit\" x=\"{x}\" y=\"15\" width=\"20\" height=\"170\"/>"
        ),
    );
    put(
        out,
        &format!(
            "<rect class=\"bar\" x=\"{}\" y=\"{top:.1}\" width=\"18\" height=\"{height:.1}\"/>",
            x + 1
        ),
    );
    if pairs > 0 {
        let (x, y, label) = (x + 10, top - 5.0, short_count(pairs));
        put(out, &format!("<text x=\"{x}\" y=\"{y:.1}\">{label}</text>"));
    }
    put(out, "</g>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_bars_stay_visible() {
        let (all, one) = (part(40_000, 40_000, true), part(1, 40_000, true));
        assert_eq!((all, part(0, 40_000, true)), (1.0, 0.0));
        assert!(one > 0.15, "{one}");
        assert_eq!(part(30, 60, false), 0.5);
        assert_eq!(
            [0.0, 0.049, 0.05, 0.999, 1.0].map(bin_of),
            [0, 0, 1, 19, 19]
        );
    }

    #[test]
    fn the_caption_says_what_is_counted() {
        assert_eq!(
            caption(45_320, 1, true),
            "All 45,320 pairs that share text. Without the one pair that shares nothing. Each step up is a tenfold number. Choose a bar to see its pairs."
        );
        assert_eq!(caption(0, 0, false), "No pair shares text.");
    }
}
