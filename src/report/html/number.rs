//! Numbers as people read them.

/// A share: whole percent, below ten one decimal. Only all is 100%, only nothing is 0%.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        _ if percent <= 0.0 => "0%".to_owned(),
        _ if percent < 0.1 => "<0.1%".to_owned(),
        _ if percent < 9.95 => format!("{percent:.1}%"),
        _ if percent < 99.5 => format!("{percent:.0}%"),
        _ if percent < 100.0 => ">99%".to_owned(),
        _ => "100%".to_owned(),
    }
}

/// A count with a comma before each three digits.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 passage`, `2 passages`.
pub fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

/// A count that fits above a bar: 999, 1k, 23k.
pub fn short_count(number: u64) -> String {
    if number < 1000 {
        number.to_string()
    } else {
        format!("{}k", count((number + 500) / 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_counts() {
        let shares = [0.0, 0.0001, 0.001, 0.0444, 0.0999, 0.5, 0.996, 1.0];
        assert_eq!(
            shares.map(percent),
            ["0%", "<0.1%", "0.1%", "4.4%", "10%", "50%", ">99%", "100%"]
        );
        assert_eq!(
            [0, 12, 999, 1000, 1_234_567].map(count),
            ["0", "12", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [counted(1, "word"), counted(2000, "word")],
            ["1 word", "2,000 words"]
        );
    }
}
