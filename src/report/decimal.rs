//! Numbers as records show them: at most six decimals and no trailing zeros, such as 1, 0.5, 0.333333.

/// The decimal digits of one number.
pub struct Decimal {
    bytes: [u8; Self::CAPACITY],
    start: usize,
}

impl Decimal {
    /// 2⁶⁴ has 20 digits; below a milliard there are at most nine, a point and six decimals.
    const CAPACITY: usize = 20;
    const MILLION: u64 = 1_000_000;

    fn empty() -> Self {
        Self {
            bytes: [0; Self::CAPACITY],
            start: Self::CAPACITY,
        }
    }

    /// A whole number.
    pub fn of_count(count: u64) -> Self {
        let mut decimal = Self::empty();
        decimal.prepend_digits(count);
        decimal
    }

    /// A number that is not negative: six decimals at most, none from 10⁹ on.
    pub fn of_number(number: f64) -> Self {
        if number >= 1e9 {
            return Self::of_count(number.round() as u64);
        }
        let millionths = (number * 1e6).round() as u64;
        let mut decimal = Self::empty();
        decimal.prepend_decimals(millionths % Self::MILLION);
        decimal.prepend_digits(millionths / Self::MILLION);
        decimal
    }

    /// The digits as ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn prepend(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[self.start] = byte;
    }

    fn prepend_digit(&mut self, number: u64) {
        self.prepend(b'0' + (number % 10) as u8);
    }

    fn prepend_digits(&mut self, mut number: u64) {
        loop {
            self.prepend_digit(number);
            number /= 10;
            if number == 0 {
                break;
            }
        }
    }

    fn prepend_decimals(&mut self, mut millionths: u64) {
        if millionths == 0 {
            return;
        }
        let mut width = 6;
        while millionths.is_multiple_of(10) {
            millionths /= 10;
            width -= 1;
        }
        for _ in 0..width {
            self.prepend_digit(millionths);
            millionths /= 10;
        }
        self.prepend(b'.');
    }
}

/// Appends a whole number.
pub fn put_count(out: &mut Vec<u8>, count: u64) {
    out.extend_from_slice(Decimal::of_count(count).as_bytes());
}

/// Appends a number with at most six decimals.
pub fn put_number(out: &mut Vec<u8>, number: f64) {
    out.extend_from_slice(Decimal::of_number(number).as_bytes());
}

/// A number with three digits, for p-values: more would say nothing.
pub fn three_digits(number: f64) -> f64 {
    format!("{number:.2e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.5, "0.5"),
            (1.0 / 3.0, "0.333333"),
            (2.0 / 3.0, "0.666667"),
            (0.000_04, "0.00004"),
            (0.000_000_4, "0"),
            (0.999_999_9, "1"),
            (1234.25, "1234.25"),
            (4e12, "4000000000000"),
        ] {
            let mut out = Vec::new();
            put_number(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn the_largest_count_fits() {
        let mut out = Vec::new();
        put_count(&mut out, u64::MAX);
        assert_eq!(out, u64::MAX.to_string().as_bytes());
    }
}
