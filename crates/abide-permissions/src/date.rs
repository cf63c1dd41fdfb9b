//! The dates of `unavailable_after`, in the forms that publishers write.
//!
//! Publishers write more forms than any one specification has, and a date that is not understood restricts
//! nothing.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use time::{Date, Month, OffsetDateTime, Weekday};

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
    /// Reads a date: RFC 822 and 1123 (weekday never checked), RFC 850, asctime, ISO 8601 (date, date-time,
    /// basic, ordinal, week), what `date` of Unix, `Date` of JavaScript and Go's `Time` print, numbers
    /// between slashes or dots that can be read in one order only, or `@` and Unix seconds. A date without a
    /// time is its first second; a time without a zone, or with a zone of unknown name, is read as UTC and is
    /// [approximate](Self::is_approximate).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
        if let Some(seconds) = text.strip_prefix('@') {
            return seconds.parse().ok().map(Self::from_unix_seconds);
        }
        let (head, tail) = split_first_word(text)?;
        let text = if is_weekday(head) { tail } else { text };
        let (day, time) = iso_date(text).or_else(|| written_date(text)).or_else(|| numeric_date(text))?;
        let (seconds, zone) = time.unwrap_or((0, Zone::UTC));
        let midnight = day.midnight().assume_utc().unix_timestamp();
        let seconds = midnight.saturating_add(seconds).saturating_sub(zone.east_seconds);
        Some(Self { approximate: zone.approximate, ..Self::from_unix_seconds(seconds) })
    }

    /// From Unix seconds; beyond the years 0000 to 9999 it saturates.
    pub fn from_unix_seconds(seconds: i64) -> Self {
        Self { unix_seconds: seconds.clamp(SECONDS_MIN, SECONDS_MAX), approximate: false }
    }

    /// Seconds since 1970-01-01T00:00:00Z.
    pub const fn unix_seconds(self) -> i64 {
        self.unix_seconds
    }

    /// Whether the zone was missing or unknown, so that UTC had to be assumed.
    pub const fn is_approximate(self) -> bool {
        self.approximate
    }

    /// The time as the standard library has it. `None` where the platform cannot express it.
    pub fn time(self) -> Option<SystemTime> {
        let distance = Duration::from_secs(self.unix_seconds.unsigned_abs());
        if self.unix_seconds < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(distance)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(distance)
        }
    }

    /// Whether `now` is later.
    pub fn has_passed(self, now: SystemTime) -> bool {
        match self.time() {
            Some(time) => now > time,
            // It lies before all times of this platform, or after them.
            None => self.unix_seconds < 0,
        }
    }
}

/// RFC 3339 in UTC: `2025-12-31T23:59:59Z`.
impl fmt::Display for UnavailableAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It is within the years that `time` has.
        let time = OffsetDateTime::from_unix_timestamp(self.unix_seconds).map_err(|_| fmt::Error)?;
        let (year, month, day) = time.to_calendar_date();
        let (month, (hour, minute, second)) = (u8::from(month), time.to_hms());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// 0000-01-01T00:00:00Z and 9999-12-31T23:59:59Z, the range of RFC 3339.
const SECONDS_MIN: i64 = -62_167_219_200;
const SECONDS_MAX: i64 = 253_402_300_799;

/// Whether a comma stands within a date: behind its weekday, as in RFC 1123 and RFC 850, or in `June 25,
/// 2010`.
pub(crate) fn is_parted(before: &[u8], behind: &[u8]) -> bool {
    let is_date = |text: &[u8]| UnavailableAfter::parse(&String::from_utf8_lossy(text)).is_some();
    let (first, next) = (String::from_utf8_lossy(before), String::from_utf8_lossy(behind));
    // A date that can't be read is none of the rules behind it.
    let begins = |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) || month(word).is_some();
    let is_begun = is_weekday(&first) && split_first_word(&next).is_some_and(|(word, _)| begins(word));
    is_begun || (!is_date(before) && is_date(&[before, b" ", behind].concat()))
}

fn is_weekday(text: &str) -> bool {
    (0..7).any(|days| begins_name(text, &Weekday::Monday.nth_next(days).to_string()))
}

/// Whether the text is at least the first three letters of a name.
fn begins_name(text: &str, name: &str) -> bool {
    text.len() >= 3 && name.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text))
}

/// A day, and the seconds since its midnight with their zone.
type Read = (Date, Option<(i64, Zone)>);

/// A day of the proleptic Gregorian calendar.
fn day_of(year: i32, month: u8, day: u8) -> Option<Date> {
    Date::from_calendar_date(year, Month::try_from(month).ok()?, day).ok()
}

/// Seconds since midnight.
fn seconds_of(hour: i64, minute: i64, second: i64) -> Option<i64> {
    // 60 is a leap second, and ISO 8601 calls the end of a day 24:00:00.
    let valid = (hour <= 23 && minute <= 59 && second <= 60) || (hour == 24 && minute == 0 && second == 0);
    let seconds = hour.checked_mul(3600)?.checked_add(minute.checked_mul(60)?)?.checked_add(second)?;
    valid.then_some(seconds)
}

/// `hh:mm`, `hh:mm:ss`, with a fraction that is ignored; or `hhmm`, `hhmmss`.
fn time(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, "0"));
    digits::<u64>(fraction, 1..=18)?;
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
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-:".contains(&byte);
        if !text.starts_with(|char: char| char.is_ascii_alphabetic()) || !text.bytes().all(is_of_name) {
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
            // JavaScript writes `GMT+0200`. The sign of `GMT+2` means either direction.
            // Lenient: publishers write names that no standard knows, and `Europe/Berlin`; UTC is at most 14
            // hours off.
            name => {
                let offset = name.strip_prefix("GMT").filter(|offset| offset.len() >= 5);
                offset.and_then(Self::parse).unwrap_or(Self::ASSUMED)
            }
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
fn digits<N: FromStr>(text: &str, length: std::ops::RangeInclusive<usize>) -> Option<N> {
    let valid = length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if valid { text.parse().ok() } else { None }
}

/// ISO 8601: `2025-12-31`, `20251231`, `2025-365`, `2026-W01-1`, `2026-W01`, each perhaps with a time behind
/// it.
fn iso_date(text: &str) -> Option<Read> {
    let end = text.find(|c: char| matches!(c, 'T' | 't') || c.is_ascii_whitespace()).unwrap_or(text.len());
    let (date, rest) = text.split_at_checked(end)?;
    let parts: Vec<&str> = date.splitn(4, '-').collect();
    let year = |text| digits(text, 4..=4);
    let two = |text| digits(text, 2..=2);
    let day = match *parts {
        [basic] if basic.len() == 8 => {
            let (of_year, rest) = basic.split_at_checked(4)?;
            let (month, day) = rest.split_at_checked(2)?;
            day_of(year(of_year)?, two(month)?, two(day)?)?
        }
        [of_year, week] if week.starts_with(['W', 'w']) => week_date(year(of_year)?, week, 1)?,
        [of_year, week, day] if week.starts_with(['W', 'w']) => {
            week_date(year(of_year)?, week, digits(day, 1..=1)?)?
        }
        [of_year, ordinal] => Date::from_ordinal_date(year(of_year)?, digits(ordinal, 3..=3)?).ok()?,
        [of_year, month, day] => day_of(year(of_year)?, two(month)?, two(day)?)?,
        _ => return None,
    };
    let rest = rest.strip_prefix(['T', 't']).unwrap_or(rest).trim_ascii();
    Some((day, if rest.is_empty() { None } else { Some(iso_time(rest)?) }))
}

/// `W01` and a day from 1 (Monday) to 7, which may lie in the year before or after.
fn week_date(year: i32, week: &str, day: u8) -> Option<Date> {
    let weekday = (1..=7).contains(&day).then(|| Weekday::Monday.nth_next(day.saturating_sub(1)))?;
    let day = Date::from_iso_week_date(year, digits(week.get(1..)?, 2..=2)?, weekday).ok()?;
    (0..=9999).contains(&day.year()).then_some(day)
}

fn iso_time(text: &str) -> Option<(i64, Zone)> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | ':' | '.' | ',')).unwrap_or(text.len());
    let (clock, zone) = text.split_at_checked(end)?;
    let zone = match split_first_word(zone) {
        None => Zone::ASSUMED,
        // Go prints the offset and its name: `+0000 UTC`.
        Some((offset, name))
            if name.is_empty() || (offset.starts_with(['+', '-']) && Zone::parse(name).is_some()) =>
        {
            Zone::parse(offset)?
        }
        Some(_) => return None,
    };
    Some((time(clock)?, zone))
}

/// Numbers between slashes or dots, where they can be read in one order only: `2025/12/31`, `31.12.2025`,
/// `12/31/2025`. The year has four digits and stands first or last; `03/04/2025` is a day in March or in
/// April.
fn numeric_date(text: &str) -> Option<Read> {
    let end = text.find(|char: char| char.is_ascii_whitespace()).unwrap_or(text.len());
    let (date, rest) = text.split_at_checked(end)?;
    let separator = date.chars().find(|char| matches!(char, '/' | '.'))?;
    let parts: Vec<&str> = date.trim_end_matches('.').split(separator).collect();
    let [first, second, third] = *parts else { return None };
    let (year, two) = (|text| digits(text, 4..=4), |text| digits::<u8>(text, 1..=2));
    let day = match year(first) {
        Some(year) => day_of(year, two(second)?, two(third)?)?,
        None => {
            let (year, first, second) = (year(third)?, two(first)?, two(second)?);
            match (day_of(year, second, first), day_of(year, first, second)) {
                (Some(day), Some(other)) if day != other => return None,
                (day, other) => day.or(other)?,
            }
        }
    };
    let rest = rest.trim_ascii();
    Some((day, if rest.is_empty() { None } else { Some(iso_time(rest)?) }))
}

/// RFC 822, 1123, 850, asctime, and JavaScript's `Date`, the weekday gone: words in one of two orders.
fn written_date(text: &str) -> Option<Read> {
    let (first, rest) = split_first_word(text)?;
    match month(first) {
        Some(month) => month_first(month, rest),
        None => day_first(first, rest),
    }
}

/// `Jun 25 15:00:00 2010` (asctime), `Jun 25 15:00:00 UTC 2010` (Unix), `Jun 25 2010 15:00:00 GMT+0000 (UTC)`
/// (JavaScript).
fn month_first(month: u8, text: &str) -> Option<Read> {
    let (day, text) = split_first_word(text)?;
    let (next, rest) = split_first_word(text)?;
    let (year, time) = if next.contains(':') {
        let (year, zone) = split_first_word(rest)?;
        // `date` of Unix has the zone before the year.
        let (year, zone) =
            if year.starts_with(|c: char| c.is_ascii_digit()) { (year, zone) } else { (zone, year) };
        (year, Some((next, zone)))
    } else {
        (next, split_first_word(rest))
    };
    Some((day_of(digits(year, 4..=4)?, month, digits(day, 1..=2)?)?, time_of_words(time)?))
}

/// `25 Jun 2010 15:00:00 PST` or `25-Jun-10 15:00:00 UTC`.
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
    Some((day, time_of_words(split_first_word(rest))?))
}

/// A clock and what is behind it: a zone, and perhaps a comment (RFC 822 §3.4.3).
fn time_of_words(words: Option<(&str, &str)>) -> Option<Option<(i64, Zone)>> {
    let Some((clock, zone)) = words else { return Some(None) };
    let comment = |text: &str| text.is_empty() || (text.starts_with('(') && text.ends_with(')'));
    let zone = match split_first_word(zone) {
        None => Zone::ASSUMED,
        Some((zone, rest)) if comment(rest) => Zone::parse(zone)?,
        Some(_) => return None,
    };
    Some(Some((time(clock)?, zone)))
}

fn month(name: &str) -> Option<u8> {
    let is_named = |month: Month| begins_name(name, &month.to_string());
    (1..=12).find(|number| Month::try_from(*number).is_ok_and(is_named))
}

/// Two digits: 00 to 69 are 20xx, 70 to 99 are 19xx, as POSIX has it.
fn full_year(text: &str) -> Option<i32> {
    if let Some(year) = digits(text, 4..=4) {
        return Some(year);
    }
    let year: i32 = digits(text, 2..=2)?;
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
}
