//! Writing the field: for servers, and for proxies that pass on what they know.
//!
//! It is the inverse of reading: what it writes is read as the rules that it was given.

use std::fmt::Write as _;

use abide_robots::ProductToken;

use super::ROBOTS_TAG;
use crate::rules::TagRules;

/// The name and value of a field that states these rules, each for a product token or (`None`) for all crawlers. Only ever
/// `Robots-Tag`: draft-illyes-repext-03 §5.3, "New implementations MUST NOT use the X- prefix". `None` when nothing is
/// stated.
///
/// ```
/// use abide_permissions::{Permissions, ReadOptions, write_field};
///
/// let options = ReadOptions::new("ExampleBot".parse()?);
/// let legacy = Permissions::from_headers(&options, [("X-Robots-Tag", "noindex, max-snippet: 20")]);
/// let (name, value) = write_field([(None, legacy.rules())]).expect("there are rules");
/// assert_eq!((name, &*value), ("Robots-Tag", "*;noindex;max-snippet=20"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_field<'a>(
    members: impl IntoIterator<Item = (Option<&'a ProductToken>, &'a TagRules)>,
) -> Option<(&'static str, String)> {
    let stating = members.into_iter().filter(|(_, rules)| !rules.is_empty());
    let members: Vec<String> = stating.map(|(token, rules)| member(token, rules)).collect();
    if members.is_empty() { None } else { Some((ROBOTS_TAG, members.join(", "))) }
}

fn member(token: Option<&ProductToken>, rules: &TagRules) -> String {
    let mut text = match token.map(ProductToken::as_str) {
        None => "*".to_owned(),
        Some(token) if token.starts_with(|c: char| c.is_ascii_alphabetic()) => token.to_owned(),
        // SF Tokens cannot begin with `_` or `-`, Strings can.
        Some(token) => format!("\"{token}\""),
    };
    // Writing to a String does not fail.
    rules.flags().for_each(|flag| _ = write!(text, ";{flag}"));
    if let Some(limit) = rules.max_snippet() {
        _ = write!(text, ";max-snippet={}", limit.min(SF_INTEGER_MAX));
    }
    if let Some(size) = rules.max_image_preview() {
        _ = write!(text, ";max-image-preview={size}");
    }
    if let Some(limit) = rules.max_video_preview() {
        _ = write!(text, ";max-video-preview={}", limit.min(SF_INTEGER_MAX));
    }
    if let Some(after) = rules.unavailable_after() {
        _ = write!(text, ";unavailable_after=@{}", after.unix_seconds());
    }
    rules.unknown().filter(|name| is_key(name)).for_each(|name| _ = write!(text, ";{name}"));
    text
}

/// RFC 9651 §3.1.2. Unknown rules that cannot be written enforce nothing, so leaving them out loses nothing.
fn is_key(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '*');
    begins && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'))
}

/// RFC 9651 §3.3.1: fifteen digits.
const SF_INTEGER_MAX: i64 = 999_999_999_999_999;
