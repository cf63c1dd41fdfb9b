//! `License`: where a site states licence terms as a machine-readable document (RSL 1.0).
//!
//! Only the place of the document is read. What it permits (`permits`, `prohibits`) is XML and the caller's
//! to fetch and read.

use abide_robots::Rules;

use crate::head::Head;
use crate::provenance::Provenance;
use crate::quoted::{split, unquoted};

/// The URLs of licence documents, as written, and where each is stated: in License records of robots.txt,
/// which belong to the whole file; in `Link` fields with `rel="license"` and `type="application/rsl+xml"`
/// (RFC 8288); in such `<link>` elements of the head. A URL is absolute, or relative to that of the response.
///
/// ```
/// use abide_permissions::licenses;
///
/// let fields = [("Link", b"</license.xml>; rel=\"license\"; type=\"application/rsl+xml\"".as_slice())];
/// let found = licenses(None, fields, None);
/// let (url, source) = &found[0];
/// assert_eq!((&**url, &*source.to_string()), ("/license.xml", "Link, field 1"));
/// ```
pub fn licenses<'a>(
    rules: Option<&Rules>,
    fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    head: Option<&Head>,
) -> Vec<(Box<str>, Provenance)> {
    let records = rules.into_iter().flat_map(|rules| rules.license_records()).map(|record| {
        (String::from_utf8_lossy(record.value()).into(), Provenance::of_record(&record, None, None))
    });
    let lines = fields.into_iter().filter(|(name, _)| name.eq_ignore_ascii_case(LINK)).enumerate();
    let links = lines.flat_map(|(line, (_, value))| {
        let urls = parts(value, b',').filter_map(license_link);
        urls.map(move |url| (url.into(), Provenance::field(LINK, line)))
    });
    let elements = head.map(Head::license_links).unwrap_or_default().iter().enumerate();
    let elements = elements.map(|(index, url)| (url.clone(), Provenance::Link { index }));
    records.chain(links.take(LICENSES_MAX)).chain(elements).collect()
}

/// The parameters of a `License` challenge among `WWW-Authenticate` fields: names in lower case, values
/// without their quotes. A server sends it with 401 or 402, when content is for licensees only. `None`: there
/// is none.
///
/// ```
/// use abide_permissions::license_challenge;
///
/// let fields = [("WWW-Authenticate", b"Basic realm=\"a, b\", License error=\"invalid_request\"".as_slice())];
/// assert_eq!(license_challenge(fields), Some(vec![("error".to_owned(), "invalid_request".to_owned())]));
/// ```
pub fn license_challenge<'a>(
    fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Option<Vec<(String, String)>> {
    let mut found: Option<Vec<(String, String)>> = None;
    let mut is_license = false;
    let values = fields.into_iter().filter(|(name, _)| name.eq_ignore_ascii_case("www-authenticate"));
    for element in values.flat_map(|(_, value)| parts(value, b',')) {
        let element = String::from_utf8_lossy(element);
        let before_equals = element.split_once('=').map_or(&*element, |(before, _)| before.trim_ascii());
        // RFC 9110 §11.6.1: a challenge is a scheme, and a space before its first parameter.
        let mut parameter = &*element;
        if before_equals.contains([' ', '\t']) || !element.contains('=') {
            let (scheme, rest) = element.split_once([' ', '\t']).unwrap_or((&element, ""));
            if found.is_some() && is_license {
                return found;
            }
            is_license = scheme.eq_ignore_ascii_case("license");
            parameter = rest;
        }
        if is_license {
            let found = found.get_or_insert_default();
            if let Some((name, value)) = parameter.split_once('=') {
                found.push((name.trim_ascii().to_ascii_lowercase(), text(value)));
            }
        }
    }
    found
}

/// Whether a link with this `rel` and `type` names a licence document.
pub(crate) fn is_license(rel: &str, media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim_ascii();
    rel.split_ascii_whitespace().any(|rel| rel.eq_ignore_ascii_case("license"))
        && essence.eq_ignore_ascii_case("application/rsl+xml")
}

/// The URL of one link of a `Link` field: `<url>; rel="license"; type="application/rsl+xml"`.
fn license_link(link: &[u8]) -> Option<String> {
    let mut parts = parts(link, b';');
    let url = parts.next()?.strip_prefix(b"<")?.strip_suffix(b">")?;
    let (mut rel, mut media_type) = (None, None);
    for part in parts {
        let part = String::from_utf8_lossy(part);
        let Some((name, value)) = part.split_once('=') else { continue };
        match name.trim_ascii().to_ascii_lowercase().as_str() {
            // RFC 8288 §3.3: of several the first counts.
            "rel" => rel = rel.or(Some(text(value))),
            "type" => media_type = media_type.or(Some(text(value))),
            _ => {}
        }
    }
    let url = String::from_utf8_lossy(url.trim_ascii()).into_owned();
    (is_license(&rel?, &media_type?) && !url.is_empty()).then_some(url)
}

/// The parts of a field between separators that are neither within `<` and `>` nor within quotes, trimmed;
/// empty ones are left out.
fn parts(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    split(value, separator, true).map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}

/// A token, or the content of a quoted string.
fn text(value: &str) -> String {
    String::from_utf8_lossy(&unquoted(value.as_bytes())).into_owned()
}

const LINK: &str = "Link";

/// A site has one or two; this many are an attack.
pub(crate) const LICENSES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_licences_of_rsl_are_found() {
        for (value, expected) in [
            ("</a>; rel=license; type=application/rsl+xml", &["/a"][..]),
            (
                "<https://a/b,c;d>; rel=\"next License\"; type=\"application/RSL+xml; v=1\"",
                &["https://a/b,c;d"],
            ),
            ("</x>; rel=next, </a>;type=\"application/rsl+xml\";rel=\"license\", <b>", &["/a"]),
            ("</a>; rel=license", &[]),
            ("</a>; type=application/rsl+xml", &[]),
            ("</a>; rel=next; rel=license; type=application/rsl+xml", &[]),
            ("</a>; title=\"; rel=license\"; type=application/rsl+xml", &[]),
            ("</a>; title=\"\\\"\"; rel=license; type=application/rsl+xml", &["/a"]),
            ("/a; rel=license; type=application/rsl+xml", &[]),
            ("<>; rel=license; type=application/rsl+xml", &[]),
            ("<", &[]),
        ] {
            let found = licenses(None, [("LINK", value.as_bytes())], None);
            assert_eq!(found.iter().map(|(url, _)| &**url).collect::<Vec<_>>(), expected, "{value}");
        }
    }

    #[test]
    fn a_challenge_is_told_from_those_beside_it() {
        for (lines, expected) in [
            (&["License"][..], Some("")),
            (&["License error=\"a b\", scope = x"], Some("error=a b scope=x")),
            (&["Basic realm=\"License error=x\""], None),
            (&["Negotiate, license ERROR=\"a\\\"b\", Bearer realm=c"], Some("error=a\"b")),
            (&["Bearer realm=c", "License error=d"], Some("error=d")),
            (&[], None),
            (&["=, ,"], None),
        ] {
            let fields = lines.iter().map(|line| ("www-authenticate", line.as_bytes()));
            let found = license_challenge(fields).map(|parameters| {
                parameters.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(found.as_deref(), expected, "{lines:?}");
        }
    }
}
