//! Where a redirect says that it leads (RFC 9110 §10.2.2).
//!
//! Clients and proxies that see two places may go to either, so there must be one. Text in another charset
//! than UTF-8 names one as well.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::LOCATION;

/// The one `Location` of a response, as text to be resolved against the URL that was requested. `None`: it
/// has none. Bytes that are not UTF-8 are percent-encoded, as browsers do with Latin-1.
///
/// # Errors
/// [`SeveralLocations`]: there are several, and they differ.
///
/// ```
/// use http::{HeaderMap, HeaderValue, header::LOCATION};
///
/// let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_bytes(b"/caf\xe9")?)]);
/// assert_eq!(abide_gate::location(&headers).unwrap().unwrap(), "/caf%E9");
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
pub fn location(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>, SeveralLocations> {
    let mut fields = headers.get_all(LOCATION).iter();
    let Some(field) = fields.next() else { return Ok(None) };
    // Lenient: RFC 9110 §5.3 has one field. The same one again, as a server and the proxy before it write it,
    // leads to one place.
    if fields.any(|other| other != field) {
        return Err(SeveralLocations);
    }
    let text = std::str::from_utf8(field.as_bytes()).map(Cow::from);
    Ok(Some(text.unwrap_or_else(|_| percent_encoded(field.as_bytes()).into())))
}

/// The `Location` fields of a response differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeveralLocations;

fn percent_encoded(bytes: &[u8]) -> String {
    let char =
        |&byte: &u8| if byte.is_ascii() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    bytes.iter().map(char).collect()
}
