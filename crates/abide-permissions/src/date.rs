//! The dates of `unavailable_after`, in the forms that publishers write.
//!
//! Publishers write more forms than any one specification has, and a date that is not understood restricts nothing.

use std::fmt;
use std::time::{Duration, SystemTime};

/// The time of an `unavailable_after` rule, in whole seconds, between the years 0000 and 9999.
///
/// Its [`Display`](fmt::Display) is RFC 3339 in UTC.
///
/// ```
/// use abide_permissions::UnavailableAfter;
///
/// let after = UnavailableAfter::parse("25 Jun 2010 15:00:00 PST").expect("a date of RFC 822");
/// assert_eq!(after.to_string(), "2010-06-25T23:00:00Z");
/// assert!(!after.is_approximate());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnavailableAfter {
    unix_seconds: i64,
    approximate: bool,
}

impl UnavailableAfter {
    /// Reads a date: RFC 822 and 1123 (weekday never checked), RFC 850, asctime, ISO 8601 (date, date-time, basic,
    /// ordinal, week), or `@` and Unix seconds. A date without a time is its first second; a time without a zone, or
    /// with a zone of unknown name, is read as UTC and is [approximate](Self::is_approximate).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
        if let Some(seconds) = text.strip_prefix('@') {
            return seconds.parse().ok().map(Self::from_unix_seconds);
        }
        let (day, time) = iso_date(text).or_else(|| written_date(text))?;
        let (seconds, zone) = time.unwrap_or((0, Zone::UTC));
        let seconds = day.saturating_mul(86_400).saturating_add(seconds).saturating_sub(zone.east_seconds);
        Some(Self { approximate: zone.approximate, ..Self::from_unix_seconds(seconds) })
    }

    /// From Unix seconds; beyond the years 0000 to 9999 it saturates.
    #[must_use]
    pub fn from_unix_seconds(seconds: i64) -> Self {
        Self { unix_seconds: seconds.clamp(SECONDS_MIN, SECONDS_MAX), approximate: false }
    }

    /// Seconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn unix_seconds(self) -> i64 {
        self.unix_seconds
    }

    /// Whether the zone was missing or unknown, so that UTC had to be assumed.
    #[must_use]
    pub const fn is_approximate(self) -> bool {
        self.approximate
    }

    /// The time as the standard library has it. `None` where the platform cannot express it.
    #[must_use]
    pub fn time(self) -> Option<SystemTime> {
        let distance = Duration::from_secs(self.unix_seconds.unsigned_abs());
        if self.unix_seconds < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(distance)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(distance)
        }
    }

    /// Whether `now` is later.
    #[must_use]
    pub fn has_passed(self, now: SystemTime) -> bool {
        match self.time() {
            Some(time) => now > time,
            None => self.unix_seconds < 0,
        }
    }
}

/// RFC 3339 in UTC: `2025-12-31T23:59:59Z`.
impl fmt::Display for UnavailableAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [year, month, day] = date_of(self.unix_seconds.div_euclid(86_400));
        let second = self.unix_seconds.rem_euclid(86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// 0000-01-01T00:00:00Z and 9999-12-31T23:59:59Z, the range of RFC 3339.
const SECONDS_MIN: i64 = -62_167_219_200;
const SECONDS_MAX: i64 = 253_402_300_799;

/// Whether the text is nothing but the name of a weekday, as before the comma of RFC 1123 and RFC 850 dates.
pub(crate) fn is_weekday(text: &str) -> bool {
    position_of_name(text, &WEEKDAYS).is_some()
}

const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Finds a name by at least its first three letters.
fn position_of_name(text: &str, names: &[&str]) -> Option<usize> {
    let short = text.len() >= 3;
    names.iter().position(|name| {
        short && name.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text))
    })
}

/// A day since 1970-01-01, and a time of it with its zone.
type Read = (i64, Option<(i64, Zone)>);

/// The number of a day since 1970-01-01, if the proleptic Gregorian calendar has it. Howard Hinnant's `days_from_civil`: years
/// begin in March, so that the leap day is the last one.
#[allow(clippy::arithmetic_side_effects, reason = "years are at most 9999, so nothing leaves i64")]
fn day_of(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(0..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    // A day that the month does not have comes back as one of the next month.
    Some(era * 146_097 + day_of_era - 719_468).filter(|days| date_of(*days) == [year, month, day])
}

/// Year, month and day of a day since 1970-01-01: Hinnant's `civil_from_days`.
#[allow(
    clippy::arithmetic_side_effects,
    reason = "the days are those of years 0 to 9999, or of the days after them"
)]
const fn date_of(days: i64) -> [i64; 3] {
    let days = days + 719_468;
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + days.div_euclid(146_097) * 400 + (month <= 2) as i64;
    [year, month, day_of_year - (153 * shifted + 2) / 5 + 1]
}

/// Seconds since midnight.
fn seconds_of(hour: i64, minute: i64, second: i64) -> Option<i64> {
    let valid = hour <= 23 && minute <= 59 && second <= 60;
    let seconds = hour.checked_mul(3600)?.checked_add(minute.checked_mul(60)?)?.checked_add(second)?;
    valid.then_some(seconds)
}

/// `hh:mm`, `hh:mm:ss`, with a fraction that is ignored; or `hhmm`, `hhmmss`.
fn time(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, "0"));
    digits(fraction, 1..=18)?;
    if !whole.contains(':') {
        let (hour, rest) = whole.split_at_checked(2)?;
        let (minute, second) = rest.split_at_checked(2)?;
        let second = if second.is_empty() { 0 } else { digits(second, 2..=2)? };
        return seconds_of(digits(hour, 2..=2)?, digits(minute, 2..=2)?, second);
    }
    let mut parts = whole.split(':');
    let hour = digits(parts.next()?, 1..=2)?;
    let minute = digits(parts.next()?, 2..=2)?;
    let second = parts.next().map_or(Some(0), |second| digits(second, 2..=2))?;
    if parts.next().is_some() { None } else { seconds_of(hour, minute, second) }
}

/// The distance to UTC.
#[derive(Clone, Copy)]
struct Zone {
    east_seconds: i64,
    approximate: bool,
}

impl Zone {
    const UTC: Self = Self { east_seconds: 0, approximate: false };
    const ASSUMED: Self = Self { east_seconds: 0, approximate: true };

    fn hours(east: i64) -> Self {
        Self { east_seconds: east.saturating_mul(3600), approximate: false }
    }

    fn parse(text: &str) -> Option<Self> {
        if let Some(east) = text.strip_prefix('+') {
            return Self::offset(east, 1);
        }
        if let Some(west) = text.strip_prefix('-') {
            return Self::offset(west, -1);
        }
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return None;
        }
        Some(match text.to_ascii_uppercase().as_str() {
            "UT" | "UTC" | "GMT" | "Z" => Self::UTC,
            "EST" | "CDT" => Self::hours(-5),
            "EDT" => Self::hours(-4),
            "CST" | "MDT" => Self::hours(-6),
            "MST" | "PDT" => Self::hours(-7),
            "PST" => Self::hours(-8),
            "CET" => Self::hours(1),
            "CEST" => Self::hours(2),
            // Lenient: publishers write names that no standard knows; UTC is at most half a day off.
            _ => Self::ASSUMED,
        })
    }

    /// `hhmm`, `hh:mm` or `hh`.
    fn offset(text: &str, sign: i64) -> Option<Self> {
        let (hour, minute) = match text.split_once(':') {
            Some(parts) => parts,
            None => text.split_at_checked(2)?,
        };
        let minute = if minute.is_empty() { 0 } else { digits(minute, 2..=2)? };
        let seconds = seconds_of(digits(hour, 2..=2)?, minute, 0)?;
        Some(Self { east_seconds: seconds.saturating_mul(sign), approximate: false })
    }
}

/// A number of as many decimal digits as `length` allows, and nothing else.
fn digits(text: &str, length: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let valid = length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if valid { text.parse().ok() } else { None }
}

/// ISO 8601: `2025-12-31`, `20251231`, `2025-365`, `2026-W01-1`, `2026-W01`, each perhaps with a time behind it.
fn iso_date(text: &str) -> Option<Read> {
    let end = text.find(|c: char| matches!(c, 'T' | 't') || c.is_ascii_whitespace()).unwrap_or(text.len());
    let (date, rest) = text.split_at_checked(end)?;
    let parts: Vec<&str> = date.splitn(4, '-').collect();
    let number = |text: &str, length: usize| digits(text, length..=length);
    let day = match *parts {
        [basic] => {
            number(basic, 8)?;
            day_of(
                basic.get(..4)?.parse().ok()?,
                basic.get(4..6)?.parse().ok()?,
                basic.get(6..)?.parse().ok()?,
            )?
        }
        [year, week] if week.starts_with(['W', 'w']) => week_date(number(year, 4)?, week, 1)?,
        [year, week, day] if week.starts_with(['W', 'w']) => {
            week_date(number(year, 4)?, week, number(day, 1)?)?
        }
        [year, ordinal] => ordinal_date(number(year, 4)?, number(ordinal, 3)?)?,
        [year, month, day] => day_of(number(year, 4)?, number(month, 2)?, number(day, 2)?)?,
        _ => return None,
    };
    let rest = rest.strip_prefix(['T', 't']).unwrap_or(rest).trim_ascii();
    Some((day, if rest.is_empty() { None } else { Some(iso_time(rest)?) }))
}

fn ordinal_date(year: i64, ordinal: i64) -> Option<i64> {
    let (first, last) = (day_of(year, 1, 1)?, day_of(year, 12, 31)?);
    Some(first.saturating_add(ordinal).saturating_sub(1)).filter(|day| (first..=last).contains(day))
}

/// The Monday of week 1 is that of the week with 4 January.
fn week_date(year: i64, week: &str, day: i64) -> Option<i64> {
    let week = digits(week.get(1..)?, 2..=2)?;
    if !(1..=53).contains(&week) || !(1..=7).contains(&day) {
        return None;
    }
    let fourth = day_of(year, 1, 4)?;
    // 1970-01-01 was a Thursday, the fourth day of its week.
    let days_after_monday = fourth.saturating_add(3).rem_euclid(7);
    let days = week.saturating_sub(1).saturating_mul(7).saturating_add(day).saturating_sub(1);
    let day = fourth.saturating_add(days).saturating_sub(days_after_monday);
    Some(day).filter(|day| (day_of(0, 1, 1)..=day_of(9999, 12, 31)).contains(&Some(*day)))
}

fn iso_time(text: &str) -> Option<(i64, Zone)> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | ':' | '.' | ',')).unwrap_or(text.len());
    let (clock, zone) = text.split_at_checked(end)?;
    let zone = zone.trim_ascii();
    Some((time(clock)?, if zone.is_empty() { Zone::ASSUMED } else { Zone::parse(zone)? }))
}

/// RFC 822, 1123, 850 and asctime: words in one of two orders.
fn written_date(text: &str) -> Option<Read> {
    let (head, tail) = split_first_word(text)?;
    let text = if is_weekday(head) { tail } else { text };
    let (first, rest) = split_first_word(text)?;
    match month(first) {
        Some(month) => asctime(month, rest),
        None => day_first(first, rest),
    }
}

/// `Jun 25 15:00:00 2010`, the weekday gone.
fn asctime(month: i64, text: &str) -> Option<Read> {
    let (day, text) = split_first_word(text)?;
    let (clock, text) = split_first_word(text)?;
    let (year, zone) = split_first_word(text)?;
    let day = day_of(digits(year, 4..=4)?, month, digits(day, 1..=2)?)?;
    Some((day, Some((time(clock)?, zone_of_words(zone)?))))
}

/// `25 Jun 2010 15:00:00 PST` or `25-Jun-10 15:00:00 UTC`, the weekday gone.
fn day_first(first: &str, rest: &str) -> Option<Read> {
    let (day, name, year, rest) = match first.split_once('-') {
        Some((day, month_and_year)) => {
            let (month, year) = month_and_year.split_once('-')?;
            (day, month, year, rest)
        }
        None => {
            let (month, rest) = split_first_word(rest)?;
            let (year, rest) = split_first_word(rest)?;
            (first, month, year, rest)
        }
    };
    let day = day_of(full_year(year)?, month(name)?, digits(day, 1..=2)?)?;
    let Some((clock, zone)) = split_first_word(rest) else { return Some((day, None)) };
    Some((day, Some((time(clock)?, zone_of_words(zone)?))))
}

fn zone_of_words(text: &str) -> Option<Zone> {
    match split_first_word(text) {
        None => Some(Zone::ASSUMED),
        Some((zone, "")) => Zone::parse(zone),
        Some(_) => None,
    }
}

/// The number of a month by its name.
fn month(name: &str) -> Option<i64> {
    i64::try_from(position_of_name(name, &MONTHS)?.saturating_add(1)).ok()
}

/// Two digits: 00 to 69 are 20xx, 70 to 99 are 19xx, as POSIX has it.
fn full_year(text: &str) -> Option<i64> {
    if let Some(year) = digits(text, 4..=4) {
        return Some(year);
    }
    let year = digits(text, 2..=2)?;
    year.checked_add(if year < 70 { 2000 } else { 1900 })
}

/// The first word and what follows it; whitespace and commas lie between words.
fn split_first_word(text: &str) -> Option<(&str, &str)> {
    let between = |c: char| c.is_ascii_whitespace() || c == ',';
    let text = text.trim_matches(between);
    if text.is_empty() {
        return None;
    }
    let (word, rest) = text.split_once(between).unwrap_or((text, ""));
    Some((word, rest.trim_start_matches(between)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_read_as_it_says() {
        let table = include_str!("../tests/vectors/dates.tsv");
        for row in table.lines().filter(|row| !row.starts_with('#')) {
            let columns: Vec<&str> = row.split('\t').collect();
            let found = UnavailableAfter::parse(columns[0]);
            let shown = found.map_or("-".to_owned(), |after| after.to_string());
            assert_eq!(shown, columns[1], "{row}");
            assert_eq!(
                found.map(|after| after.is_approximate()),
                columns.get(2).map(|zone| *zone == "about"),
                "{row}"
            );
        }
    }

    #[test]
    fn far_dates_saturate_and_pass() {
        let never = UnavailableAfter::from_unix_seconds(i64::MAX);
        assert_eq!(never.to_string(), "9999-12-31T23:59:59Z");
        let long_ago = UnavailableAfter::from_unix_seconds(i64::MIN);
        assert_eq!(long_ago.to_string(), "0000-01-01T00:00:00Z");
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        assert!(long_ago.has_passed(now));
        assert!(!never.has_passed(now));
    }

    #[test]
    fn days_convert_both_ways_over_all_years() {
        let (first, last) = (day_of(0, 1, 1).expect("exists"), day_of(9999, 12, 31).expect("exists"));
        for days in (first..=last).step_by(13) {
            let [year, month, day] = date_of(days);
            assert_eq!(day_of(year, month, day), Some(days));
        }
    }
}
