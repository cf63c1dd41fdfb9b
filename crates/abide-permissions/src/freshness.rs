//! How long a response is fresh (RFC 9111 §4.2), computed as a private cache does.
//!
//! It says when to fetch again, and nothing else: rules stay in force (draft-illyes-repext-03 §3.1.4).

use std::time::{Duration, SystemTime};

use crate::options::ReadOptions;

/// The fields that decide freshness, by their lower-case names.
pub(crate) const CACHING_FIELDS: [&str; 5] = ["cache-control", "expires", "date", "last-modified", "age"];

/// How long after it was received a response stays fresh. `lines` gives the lines of a field.
pub(crate) fn lifetime<'a, I>(
    lines: impl Fn(&str) -> I,
    received: SystemTime,
    options: &ReadOptions,
) -> Duration
where
    I: Iterator<Item = &'a [u8]>,
{
    let text = |name: &str| lines(name).next().and_then(|line| std::str::from_utf8(line).ok()).map(str::trim);
    let time = |name: &str| text(name).and_then(|text| httpdate::parse_http_date(text).ok());
    let control = CacheControl::of(lines("cache-control"));
    if control.is_uncacheable {
        return Duration::ZERO;
    }
    let date = time("date").unwrap_or(received);
    let stated = if let Some(max_age) = control.max_age {
        max_age
    } else if lines("expires").next().is_some() {
        // RFC 9111 §5.3: an invalid date, "especially the value 0", is in the past.
        time("expires").and_then(|expires| expires.duration_since(date).ok()).unwrap_or(Duration::ZERO)
    } else if let Some(modified) = time("last-modified").filter(|_| options.heuristic_percent > 0) {
        let unchanged = date.duration_since(modified).unwrap_or(Duration::ZERO);
        unchanged
            .checked_mul(options.heuristic_percent)
            .map_or(Duration::MAX, |percents| percents.div_f64(100.0))
    } else {
        options.default_ttl
    };
    let age = text("age").and_then(seconds).unwrap_or(Duration::ZERO);
    stated.saturating_sub(age)
}

/// The directives that matter to a private cache: `s-maxage` does not.
#[derive(Default)]
struct CacheControl {
    max_age: Option<Duration>,
    /// `no-cache` or `no-store`.
    is_uncacheable: bool,
}

impl CacheControl {
    fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut control = Self::default();
        for directive in lines.flat_map(|line| line.split(|byte| *byte == b',')) {
            let directive = String::from_utf8_lossy(directive.trim_ascii());
            let (name, value) = match directive.split_once('=') {
                Some((name, value)) => (name.trim_ascii(), Some(value.trim_ascii().trim_matches('"'))),
                None => (&*directive, None),
            };
            match name.to_ascii_lowercase().as_str() {
                // RFC 9111 §4.2.1: the first counts, and what cannot be read is stale.
                "max-age" if control.max_age.is_none() => {
                    control.max_age = Some(value.and_then(seconds).unwrap_or(Duration::ZERO));
                }
                "no-store" => control.is_uncacheable = true,
                // With names of fields it concerns those alone (RFC 9111 §5.2.2.4).
                "no-cache" if value.is_none() => control.is_uncacheable = true,
                _ => {}
            }
        }
        control
    }
}

/// RFC 9111 §1.2.2: a number too large for us is 2,147,483,648.
fn seconds(text: &str) -> Option<Duration> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        .then(|| Duration::from_secs(text.parse::<u64>().map_or(1 << 31, |seconds| seconds.min(1 << 31))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_read_as_it_says() {
        let received = SystemTime::UNIX_EPOCH + Duration::from_secs(1_735_689_600);
        let options = ReadOptions::for_tokens([]).with_default_ttl(Duration::from_secs(7));
        let table = include_str!("../tests/vectors/freshness.tsv");
        for row in table.lines().filter(|row| !row.starts_with('#')) {
            let mut columns = row.split('\t');
            let expected: u64 = columns.next().unwrap().parse().unwrap();
            let fields: Vec<_> = columns.map(|field| field.split_once(": ").unwrap()).collect();
            let lines = |name: &str| {
                let of_name = fields.iter().filter(|field| field.0 == name);
                of_name.map(|(_, value)| value.as_bytes()).collect::<Vec<_>>().into_iter()
            };
            assert_eq!(lifetime(lines, received, &options).as_secs(), expected, "{row}");
        }
    }
}
