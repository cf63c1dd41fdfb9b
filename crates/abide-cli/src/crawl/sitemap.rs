//! The URLs of a sitemap: XML sitemaps and indexes of them, Atom and RSS, lists of URLs; each also as a gzip
//! file, whatever its name and type.
//!
//! quick-xml reads the XML, with its lenient settings: sitemaps have bare ampersands, stand behind the
//! warnings of what wrote them, and end early.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::io::Read;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use flate2::bufread::MultiGzDecoder;
use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::QName;
use url::Url;

use crate::crawl::links::{Found, charset_of};

/// Whether a page that was given is an XML sitemap or a feed, packed or not.
pub(crate) fn is_sitemap(content_type: Option<&str>, body: &[u8]) -> bool {
    let body = unpacked(body, SNIFFED);
    let text = decoded(content_type, body.get(..SNIFFED).unwrap_or(&body));
    root(&text).is_some()
}

/// What a sitemap names. Of one that is longer than `len_max`, or cut off, what is there counts.
pub(crate) fn of_sitemap(url: &Url, content_type: Option<&str>, body: &[u8], len_max: usize) -> Found {
    let body = unpacked(body, len_max);
    let text = decoded(content_type, &body);
    match root(&text) {
        Some((root, prefix)) => of_xml(url, &text, root, &prefix),
        None if text.trim_start().starts_with('<') => Found::default(),
        None => of_list(url, &text),
    }
}

/// The root element of what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    Urls,
    Sitemaps,
    /// Atom, RSS, and RSS 1.0, which is RDF.
    Feed,
}

/// The first element with one of these names, and its prefix, which may be any: what wrote the sitemap may
/// have complained before it.
fn root(text: &str) -> Option<(Root, String)> {
    let root = |root, tag: &BytesStart<'_>| (root, prefix(tag.name()).to_owned());
    let mut reader = reader(text);
    loop {
        match reader.read_event() {
            Ok(Event::Start(ref tag) | Event::Empty(ref tag)) => match tag.local_name().into_inner() {
                "urlset" => return Some(root(Root::Urls, tag)),
                "sitemapindex" => return Some(root(Root::Sitemaps, tag)),
                "feed" | "rss" | "RDF" => return Some(root(Root::Feed, tag)),
                // No complaint, but a page.
                "html" => return None,
                _ => {}
            },
            Ok(Event::Eof) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

fn prefix(name: QName<'_>) -> &str {
    name.prefix().map_or("", |prefix| prefix.into_inner())
}

fn reader(text: &str) -> Reader<&[u8]> {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    config.allow_dangling_amp = true;
    reader
}

fn of_xml(url: &Url, text: &str, root: Root, own: &str) -> Found {
    let mut found = Found { is_sitemap: true, ..Found::default() };
    let mut reader = reader(text);
    // Of a feed, only what its entries link to: the rest is about the feed.
    let (mut is_entry, mut place) = (false, None::<String>);
    // An image has a `loc` as well, with another prefix.
    let is_loc = |name: QName<'_>| {
        root != Root::Feed && name.local_name().into_inner() == "loc" && prefix(name) == own
    };
    loop {
        let event = reader.read_event();
        match &event {
            Ok(Event::Start(tag)) if is_loc(tag.name()) => place = Some(String::new()),
            Ok(Event::Start(tag) | Event::Empty(tag)) if root == Root::Feed => {
                match tag.local_name().into_inner() {
                    "entry" | "item" => is_entry = true,
                    "link" if is_entry => match href(tag) {
                        Some(href) => add(&mut found, url, root, &href),
                        None => place = matches!(event, Ok(Event::Start(_))).then(String::new),
                    },
                    _ => {}
                }
            }
            Ok(Event::End(tag)) => match tag.local_name().into_inner() {
                "loc" | "link" => {
                    let text = place.take().unwrap_or_default();
                    add(&mut found, url, root, &text);
                }
                "entry" | "item" => is_entry = false,
                _ => {}
            },
            // What was cut off, or cannot be read on, counts as far as it goes.
            Ok(Event::Eof) | Err(_) => return found,
            Ok(event) => text_of(event, place.as_mut()),
        }
    }
}

/// Where a link of Atom leads. One with another relation than "alternate" is not the entry.
fn href(tag: &BytesStart<'_>) -> Option<String> {
    let attribute = |name: &str| {
        let attribute = tag.try_get_attribute(name).ok()??;
        Some(unescaped(&attribute.value))
    };
    let href = attribute("href")?;
    let is_entry = attribute("rel").is_none_or(|rel| rel == "alternate");
    Some(if is_entry { href } else { String::new() })
}

/// Adds what an event is in text, where that counts.
fn text_of(event: &Event<'_>, place: Option<&mut String>) {
    let Some(text) = place else { return };
    match event {
        Event::Text(part) => text.push_str(part),
        Event::CData(part) => text.push_str(part),
        Event::GeneralRef(name) => text.push_str(&entity(name)),
        _ => {}
    }
}

/// XML has five entities and no others: `&copy;` is part of a query.
fn entity(name: &str) -> Cow<'static, str> {
    let number = name.strip_prefix('#').and_then(|digits| match digits.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    });
    match (resolve_xml_entity(name), number.and_then(char::from_u32)) {
        (Some(text), _) => text.into(),
        (None, Some(letter)) => letter.to_string().into(),
        (None, None) => format!("&{name};").into(),
    }
}

/// An attribute, with the same entities.
fn unescaped(value: &str) -> String {
    let mut parts = value.split('&');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(';') {
            Some((name, rest)) if (1..=ENTITY_LEN_MAX).contains(&name.len()) => {
                text.extend([&*entity(name), rest]);
            }
            _ => text.extend(["&", part]),
        }
    }
    text
}

/// Adds the URL that a text begins with.
fn add(found: &mut Found, url: &Url, root: Root, text: &str) {
    // No URL has white space in it: what follows is something else.
    let Some(text) = text.split_whitespace().next() else { return };
    match found.join(url, text, UTF_8) {
        Some(found_url) if root == Root::Sitemaps => found.sitemaps.push(found_url),
        Some(found_url) => found.pages.push(found_url),
        None if found.is_cut => {}
        None => found.no_url = found.no_url.saturating_add(1),
    }
}

/// A URL a line, each absolute: a text that is none would name a page with each of its words.
fn of_list(url: &Url, text: &str) -> Found {
    let mut found = Found::default();
    for line in text.lines() {
        let Some(first) = line.split_whitespace().next() else { continue };
        if Url::parse(first).is_ok() {
            add(&mut found, url, Root::Urls, first);
        } else {
            found.no_url = found.no_url.saturating_add(1);
        }
    }
    found
}

fn unpacked(body: &[u8], len_max: usize) -> Cow<'_, [u8]> {
    // RFC 1952 §2.3.1.
    if !body.starts_with(&[0x1f, 0x8b]) {
        return Cow::Borrowed(body);
    }
    let mut text = Vec::new();
    // What came before an error is kept.
    let _ = MultiGzDecoder::new(body).take(len_max as u64).read_to_end(&mut text);
    Cow::Owned(text)
}

/// Lenient: RFC 7303 §3.2 puts the charset of the Content-Type before the XML declaration. Servers add one to
/// all that they send, and what wrote the declaration wrote the sitemap.
fn decoded<'a>(content_type: Option<&str>, body: &'a [u8]) -> Cow<'a, str> {
    let marked = Encoding::for_bom(body).map(|(encoding, _)| encoding);
    let declared = || xml_encoding(body).or_else(|| content_type.and_then(charset_of));
    marked.or_else(declared).unwrap_or(UTF_8).decode(body).0
}

/// The encoding that an XML declaration names, at the beginning or behind a notice.
pub(crate) fn xml_encoding(body: &[u8]) -> Option<&'static Encoding> {
    match body {
        [0, b'<', 0, b'?', ..] => return Some(UTF_16BE),
        [b'<', 0, b'?', 0, ..] => return Some(UTF_16LE),
        _ => {}
    }
    let head = String::from_utf8_lossy(body.get(..SNIFFED).unwrap_or(body));
    let (_, declaration) = head.split_once("<?xml ")?;
    let (declaration, _) = declaration.split_once("?>")?;
    let (_, label) = declaration.split_once("encoding")?;
    let label = label.trim_start().strip_prefix('=')?.trim_start();
    let label = label.strip_prefix(['"', '\''])?.split(['"', '\'']).next()?;
    // XML 1.0 §4.3.3: what can be read as ASCII is not UTF-16.
    Encoding::for_label(label.as_bytes()).map(|it| if it == UTF_16BE || it == UTF_16LE { UTF_8 } else { it })
}

/// The root of a sitemap comes after a declaration, some comments or a notice.
const SNIFFED: usize = 4096;
/// No name of an entity is as long.
const ENTITY_LEN_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use abide_tests::gzip;

    use super::*;

    fn read(content_type: Option<&str>, body: &[u8], len_max: usize) -> Found {
        of_sitemap(&"http://a/map".parse().unwrap(), content_type, body, len_max)
    }

    fn texts(urls: &[Url]) -> Vec<&str> {
        urls.iter().map(Url::as_str).collect()
    }

    #[test]
    fn a_sitemap_is_decoded_as_it_is_declared() {
        let utf_16 = |mark: &str, text: &str| -> Vec<u8> {
            (mark.to_owned() + text).encode_utf16().flat_map(u16::to_le_bytes).collect()
        };
        let xml = |label: &str| {
            format!("<?xml version='1.0' encoding='{label}'?><urlset><url><loc>/caf\u{e9}</loc>")
        };
        let latin = |label: &str| xml(label).replace('\u{e9}', "@").replace('@', "\0").into_bytes();
        let latin =
            |label: &str| latin(label).iter().map(|&byte| if byte == 0 { 0xe9 } else { byte }).collect();
        for (name, content_type, body) in [
            ("mark", None, utf_16("\u{feff}", &xml("UTF-16"))),
            ("no mark", Some("text/xml; charset=utf-8"), utf_16("", &xml("UTF-16"))),
            ("declaration", Some("text/xml; charset=utf-8"), latin("ISO-8859-1")),
            ("Content-Type", Some("text/xml; charset=latin1"), latin("none")),
            ("UTF-8 that says UTF-16", None, xml("UTF-16").into_bytes()),
        ] {
            assert_eq!(texts(&read(content_type, &body, 9999).pages), ["http://a/caf%C3%A9"], "{name}");
            assert!(is_sitemap(content_type, &body), "{name}");
        }
    }

    #[test]
    fn a_sitemap_is_read_as_it_is_meant() {
        for (body, pages) in [
            (
                "<urlset><loc>http://a/?x=1&copy=2&amp;y&region;&#38;z</loc></urlset>",
                &["http://a/?x=1&copy=2&y&region;&z"][..],
            ),
            (
                "<b>Deprecated</b>: x <br/> in y.php &nbsp; on line 3\n<?xml version='1.0'?><urlset><loc>/1</loc></urlset>",
                &["http://a/1"],
            ),
            (
                "<urlset><url><loc>\n http://a/1\t2026-01-01 </loc><image:loc>/i.png</image:loc></url></urlset>",
                &["http://a/1"],
            ),
            (
                "<urlset><loc><![CDATA[/1?a&b]]></loc><!-- <loc>/no</loc> --><location>/no</location><loc>/2</loc><loc>/cut",
                &["http://a/1?a&b", "http://a/2"],
            ),
            (
                "<rss><channel><link>/home</link><item><link>/1</link><guid>/no</guid></item></channel></rss>",
                &["http://a/1"],
            ),
            (
                "<feed><link rel='self' href='/feed'/><entry><link href='/1?a&amp;b&copy=c'/><link rel='edit' href='/no'/></entry></feed>",
                &["http://a/1?a&b&copy=c"],
            ),
            (
                "<r:RDF><channel><link>/no</link></channel><item><link>/1</link></item></r:RDF>",
                &["http://a/1"],
            ),
            ("http://a/1\t2026-01-01\nnonsense here\nhttps://b/2\n", &["http://a/1", "https://b/2"]),
            ("<!doctype html><html><title>no urlset</title><a href=/1>", &[]),
        ] {
            assert_eq!(texts(&read(None, body.as_bytes(), 9999).pages), pages, "{body}");
        }
        let found = read(None, b"<s:sitemapindex><s:sitemap><s:loc>x.xml</s:loc></s:sitemap><s:loc>http://[</s:loc><loc>/no</loc></s:sitemapindex>", 999);
        assert_eq!((texts(&found.sitemaps), found.no_url), (vec!["http://a/x.xml"], 1));
    }

    #[test]
    fn sitemaps_may_be_gzip_files_in_several_members() {
        let (first, rest) = (gzip(b"<urlset><loc>http://a/1</loc><loc>http"), gzip(b"://a/2</loc></urlset>"));
        assert_eq!(texts(&read(None, &[first, rest].concat(), 9999).pages), ["http://a/1", "http://a/2"]);
        let index = gzip(b"<sitemapindex><loc>http://a/s.xml.gz</loc></sitemapindex>");
        assert!(is_sitemap(None, &index));
        assert_eq!(texts(&read(None, &index, 9999).sitemaps), ["http://a/s.xml.gz"]);
    }

    #[test]
    fn a_gzip_file_that_is_cut_or_damaged_counts_as_far_as_it_goes() {
        let lines: String = (0..100).map(|number| format!("http://a/{}\n", number * number)).collect();
        let whole = gzip(lines.as_bytes());
        let mut most = 0;
        for len in 0..whole.len() {
            let found = read(None, &whole[..len], usize::MAX).pages;
            assert!(found.len() >= most && found.len() <= 100, "at {len}");
            most = found.len();
            let mut damaged = whole.clone();
            damaged[len] ^= 0x55;
            assert!(read(None, &damaged, 1 << 20).len() <= 1000);
        }
        assert!(most > 90, "{most}");
    }

    #[test]
    fn a_gzip_file_that_unpacks_without_end_is_cut() {
        // 4 MB that would be 4 GB.
        let bomb = gzip(&[b' '; 1 << 20]).repeat(4096);
        assert_eq!(unpacked(&bomb, 1 << 22).len(), 1 << 22);
    }
}
