//! The dates of `unavailable_after`, in the forms that publishers write.

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
        let (date, rest) = iso_date(text).or_else(|| written_date(text))?;
        match rest {
            Rest::Nothing => Some(Self::of(date, Time::default(), Zone::UTC)),
            Rest::Time(time, zone) => Some(Self::of(date, time, zone)),
        }
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

    fn of(date: Date, time: Time, zone: Zone) -> Self {
        let day = date.days_since_epoch().saturating_mul(86_400);
        let seconds = day.saturating_add(time.seconds).saturating_sub(zone.east_seconds);
        Self { approximate: zone.approximate, ..Self::from_unix_seconds(seconds) }
    }
}

/// RFC 3339 in UTC: `2025-12-31T23:59:59Z`.
impl fmt::Display for UnavailableAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = Date::from_days(self.unix_seconds.div_euclid(86_400));
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

/// What follows the date.
enum Rest {
    Nothing,
    Time(Time, Zone),
}

/// A day of the proleptic Gregorian calendar that exists.
#[derive(Clone, Copy)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
}

impl Date {
    fn new(year: i64, month: i64, day: i64) -> Option<Self> {
        let valid = (0..=9999).contains(&year) && (1..=12).contains(&month);
        (valid && (1..=days_of_month(year, month)).contains(&day)).then_some(Self { year, month, day })
    }

    /// Howard Hinnant's `days_from_civil`: years begin in March, so that the leap day is the last one.
    #[allow(clippy::arithmetic_side_effects, reason = "years are at most 9999, so nothing leaves i64")]
    const fn days_since_epoch(self) -> i64 {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let day_of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    /// The inverse, Hinnant's `civil_from_days`.
    #[allow(clippy::arithmetic_side_effects, reason = "the days come from seconds within years 0 to 9999")]
    const fn from_days(days: i64) -> Self {
        let days = days + 719_468;
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + days.div_euclid(146_097) * 400 + (month <= 2) as i64;
        Self { year, month, day: day_of_year - (153 * shifted + 2) / 5 + 1 }
    }

    /// The date that lies `days` after this one.
    fn plus(self, days: i64) -> Option<Self> {
        let date = Self::from_days(self.days_since_epoch().saturating_add(days));
        Self::new(date.year, date.month, date.day)
    }
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Seconds since midnight.
#[derive(Clone, Copy, Default)]
struct Time {
    seconds: i64,
}

impl Time {
    fn new(hour: i64, minute: i64, second: i64) -> Option<Self> {
        let valid = hour <= 23 && minute <= 59 && second <= 60;
        let seconds = hour.checked_mul(3600)?.checked_add(minute.checked_mul(60)?)?.checked_add(second)?;
        valid.then_some(Self { seconds })
    }

    /// `hh:mm`, `hh:mm:ss`, with a fraction that is ignored; or `hhmm`, `hhmmss`.
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, "0"));
        digits(fraction, 1..=18)?;
        if !whole.contains(':') {
            let (hour, rest) = whole.split_at_checked(2)?;
            let (minute, second) = rest.split_at_checked(2)?;
            let second = if second.is_empty() { 0 } else { digits(second, 2..=2)? };
            return Self::new(digits(hour, 2..=2)?, digits(minute, 2..=2)?, second);
        }
        let mut parts = whole.split(':');
        let hour = digits(parts.next()?, 1..=2)?;
        let minute = digits(parts.next()?, 2..=2)?;
        let second = parts.next().map_or(Some(0), |second| digits(second, 2..=2))?;
        if parts.next().is_some() { None } else { Self::new(hour, minute, second) }
    }
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
        let time = Time::new(digits(hour, 2..=2)?, minute, 0)?;
        Some(Self { east_seconds: time.seconds.saturating_mul(sign), approximate: false })
    }
}

/// A number of so many decimal digits and nothing else.
fn digits(text: &str, length: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let valid = length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if valid { text.parse().ok() } else { None }
}

/// ISO 8601: `2025-12-31`, `20251231`, `2025-365`, `2026-W01-1`, `2026-W01`, each perhaps with a time behind it.
fn iso_date(text: &str) -> Option<(Date, Rest)> {
    let end = text.find(|c: char| matches!(c, 'T' | 't') || c.is_ascii_whitespace()).unwrap_or(text.len());
    let (day, rest) = text.split_at_checked(end)?;
    let date = match day.split_once('-') {
        None => basic_date(day)?,
        Some((year, rest)) => {
            let year = digits(year, 4..=4)?;
            match rest.strip_prefix(['W', 'w']) {
                Some(week) => week_date(year, week)?,
                None => month_or_ordinal_date(year, rest)?,
            }
        }
    };
    let rest = rest.strip_prefix(['T', 't']).unwrap_or(rest).trim_ascii();
    let rest = if rest.is_empty() { Rest::Nothing } else { iso_time(rest)? };
    Some((date, rest))
}

fn basic_date(text: &str) -> Option<Date> {
    digits(text, 8..=8)?;
    let (year, rest) = text.split_at_checked(4)?;
    let (month, day) = rest.split_at_checked(2)?;
    Date::new(digits(year, 4..=4)?, digits(month, 2..=2)?, digits(day, 2..=2)?)
}

fn month_or_ordinal_date(year: i64, text: &str) -> Option<Date> {
    match text.split_once('-') {
        Some((month, day)) => Date::new(year, digits(month, 2..=2)?, digits(day, 2..=2)?),
        None => {
            let ordinal = digits(text, 3..=3)?;
            let date = Date::new(year, 1, 1)?.plus(ordinal.checked_sub(1)?)?;
            (date.year == year && ordinal > 0).then_some(date)
        }
    }
}

/// The Monday of week 1 is that of the week with 4 January.
fn week_date(year: i64, text: &str) -> Option<Date> {
    let (week, day) = text.split_once('-').unwrap_or((text, "1"));
    let (week, day) = (digits(week, 2..=2)?, digits(day, 1..=1)?);
    if !(1..=53).contains(&week) || !(1..=7).contains(&day) {
        return None;
    }
    let fourth = Date::new(year, 1, 4)?;
    // 1970-01-01 was a Thursday, the fourth day of its week.
    let days_after_monday = fourth.days_since_epoch().saturating_add(3).rem_euclid(7);
    let days = week.saturating_sub(1).saturating_mul(7).saturating_add(day).saturating_sub(1);
    fourth.plus(days.saturating_sub(days_after_monday))
}

fn iso_time(text: &str) -> Option<Rest> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | ':' | '.' | ',')).unwrap_or(text.len());
    let (time, zone) = text.split_at_checked(end)?;
    let zone = zone.trim_ascii();
    let zone = if zone.is_empty() { Zone::ASSUMED } else { Zone::parse(zone)? };
    Some(Rest::Time(Time::parse(time)?, zone))
}

/// RFC 822, 1123, 850 and asctime: words in one of two orders.
fn written_date(text: &str) -> Option<(Date, Rest)> {
    let (head, tail) = split_first_word(text)?;
    let text = if is_weekday(head) { tail } else { text };
    let (first, rest) = split_first_word(text)?;
    match position_of_name(first, &MONTHS) {
        Some(month) => asctime(month, rest),
        None => day_first(first, rest),
    }
}

/// `Jun 25 15:00:00 2010`, the weekday gone.
fn asctime(month: usize, text: &str) -> Option<(Date, Rest)> {
    let (day, text) = split_first_word(text)?;
    let (time, text) = split_first_word(text)?;
    let (year, zone) = split_first_word(text)?;
    let date = Date::new(digits(year, 4..=4)?, month_number(month), digits(day, 1..=2)?)?;
    Some((date, Rest::Time(Time::parse(time)?, zone_of_words(zone)?)))
}

/// `25 Jun 2010 15:00:00 PST` or `25-Jun-10 15:00:00 UTC`, the weekday gone.
fn day_first(first: &str, rest: &str) -> Option<(Date, Rest)> {
    let (day, month, year, rest) = match first.split_once('-') {
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
    let month = month_number(position_of_name(month, &MONTHS)?);
    let date = Date::new(full_year(year)?, month, digits(day, 1..=2)?)?;
    let Some((time, zone)) = split_first_word(rest) else { return Some((date, Rest::Nothing)) };
    Some((date, Rest::Time(Time::parse(time)?, zone_of_words(zone)?)))
}

fn zone_of_words(text: &str) -> Option<Zone> {
    match split_first_word(text) {
        None => Some(Zone::ASSUMED),
        Some((zone, "")) => Zone::parse(zone),
        Some(_) => None,
    }
}

fn month_number(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(0).saturating_add(1)
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

    fn read(text: &str) -> Option<(String, bool)> {
        UnavailableAfter::parse(text).map(|after| (after.to_string(), after.is_approximate()))
    }

    #[test]
    fn every_documented_form_is_read() {
        for (text, time, approximate) in [
            ("25 Jun 2010 15:00:00 PST", "2010-06-25T23:00:00Z", false),
            ("Friday, 25-Jun-10 15:00:00 UTC", "2010-06-25T15:00:00Z", false),
            ("Friday, 25-Jun-2010 15:00:00 UTC", "2010-06-25T15:00:00Z", false),
            ("25-Aug-2007 15:00:00 EST", "2007-08-25T20:00:00Z", false),
            ("Fri Jun 25 15:00:00 2010", "2010-06-25T15:00:00Z", true),
            ("Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37Z", true),
            ("31 Dec 25 23:59 Z", "2025-12-31T23:59:00Z", false),
            ("Wed, 31 Dec 2025 23:59:59 GMT", "2025-12-31T23:59:59Z", false),
            ("wed, 31 dec 2025 23:59:59 gmt", "2025-12-31T23:59:59Z", false),
            ("Mon, 31 Dec 2025 23:59:59 GMT", "2025-12-31T23:59:59Z", false),
            ("31 December 2025", "2025-12-31T00:00:00Z", false),
            ("2025-12-31", "2025-12-31T00:00:00Z", false),
            ("20251231", "2025-12-31T00:00:00Z", false),
            ("2025-365", "2025-12-31T00:00:00Z", false),
            ("2024-366", "2024-12-31T00:00:00Z", false),
            ("2026-W01-1", "2025-12-29T00:00:00Z", false),
            ("2026-W01", "2025-12-29T00:00:00Z", false),
            ("2020-W53-7", "2021-01-03T00:00:00Z", false),
            ("2025-12-31T23:59:59+02:00", "2025-12-31T21:59:59Z", false),
            ("2025-12-31T23:59:59.123456-0130", "2026-01-01T01:29:59Z", false),
            ("2025-12-31 23:59:59Z", "2025-12-31T23:59:59Z", false),
            ("2025-12-31 23:59 CET", "2025-12-31T22:59:00Z", false),
            ("2025-12-31T23:59", "2025-12-31T23:59:00Z", true),
            ("20251231T235959Z", "2025-12-31T23:59:59Z", false),
            ("@1735689600", "2025-01-01T00:00:00Z", false),
            ("25 Jun 2010 15:00:00 XYZ", "2010-06-25T15:00:00Z", true),
            ("29 Feb 2024", "2024-02-29T00:00:00Z", false),
            ("1 Jan 70", "1970-01-01T00:00:00Z", false),
            ("1 Jan 69", "2069-01-01T00:00:00Z", false),
            ("0000-01-01", "0000-01-01T00:00:00Z", false),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z", false),
            ("9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59Z", false),
        ] {
            assert_eq!(read(text), Some((time.to_owned(), approximate)), "{text}");
        }
    }

    #[test]
    fn zone_names_of_the_americas_and_europe_are_known() {
        for (zone, hour) in [
            ("UT", 12),
            ("EST", 17),
            ("EDT", 16),
            ("CST", 18),
            ("CDT", 17),
            ("MST", 19),
            ("MDT", 18),
            ("PST", 20),
            ("PDT", 19),
            ("CET", 11),
            ("CEST", 10),
        ] {
            let expected = format!("2025-01-02T{hour:02}:00:00Z");
            assert_eq!(read(&format!("2 Jan 2025 12:00:00 {zone}")), Some((expected, false)), "{zone}");
        }
    }

    #[test]
    fn what_is_no_date_is_not_stated() {
        for text in [
            "",
            "soon",
            "1735689600",
            "30 Feb 2025",
            "29 Feb 2025",
            "2025-02-29",
            "2025-366",
            "2025-000",
            "2025-W54",
            "2025-W01-8",
            "2025-13-01",
            "2025-12-31T24:00:00Z",
            "2025-12-31T23:60:00Z",
            "2025-12-31T",
            "31 Dec 2025 23:59:59 GMT and more",
            "Friday",
            "@",
            "@x",
            "31 Foo 2025",
            "31 Dec 125",
            "\u{e9}\u{e9}",
            "2025-1\u{e9}",
        ] {
            let expected =
                if text == "2025-12-31T" { Some(("2025-12-31T00:00:00Z".into(), false)) } else { None };
            assert_eq!(read(text), expected, "{text}");
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
        let mut days = Date::new(0, 1, 1).expect("exists").days_since_epoch();
        let last = Date::new(9999, 12, 31).expect("exists").days_since_epoch();
        while days <= last {
            let date = Date::from_days(days);
            assert!(Date::new(date.year, date.month, date.day).is_some(), "{days}");
            assert_eq!(date.days_since_epoch(), days);
            days += 13;
        }
    }
}
