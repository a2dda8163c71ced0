//! Dates of files.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_SECONDS: u64 = 86_400;

/// A day, counted from 1 January 1970, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(u64);

impl Day {
    /// The day of a time; none before 1970.
    pub fn of(time: SystemTime) -> Option<Self> {
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        Some(Self(since.as_secs() / DAY_SECONDS))
    }

    /// As `2026-11-18`.
    ///
    /// In years that begin on 1 March a leap day is the last day, so the months before it have fixed lengths: 153 days in five months.
    pub fn date(self) -> String {
        let days = self.0 + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day_of_month = day - (153 * month + 2) / 5 + 1;
        let (month, later) = if month < 10 {
            (month + 3, 0)
        } else {
            (month - 9, 1)
        };
        format!(
            "{:04}-{month:02}-{day_of_month:02}",
            400 * era + year + later
        )
    }
}

/// The date of a time in UTC, as `2026-11-18`; none before 1970.
pub fn date_of(time: SystemTime) -> Option<String> {
    Day::of(time).map(Day::date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn known_days() {
        for (seconds, date) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_792_281_599, "2026-10-17"),
            (4_107_542_400, "2100-03-01"),
            (1_767_225_599, "2025-12-31"),
            (1_767_225_600, "2026-01-01"),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(Day::of(time).unwrap().date(), date);
        }
        assert_eq!(Day::of(UNIX_EPOCH - Duration::from_secs(1)), None);
    }
}
