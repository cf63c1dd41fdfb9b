//! The links of a page, and the URLs of a sitemap.
//!
//! lol_html and not the head scanner of `abide-permissions`: links are all over the page, and a link that is missed is no breach.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::Read;

use encoding_rs::Encoding;
use flate2::bufread::MultiGzDecoder;
use lol_html::{HtmlRewriter, Settings, element};
use url::Url;

/// Links of `a` and `area` elements, in order. With `obeys`, those that say nofollow, ugc or sponsored are left out.
pub(crate) fn of_page(url: &Url, content_type: Option<&str>, html: &[u8], obeys: bool) -> Vec<Url> {
    // As browsers have it: a byte order mark goes before the Content-Type, and that before what the page says of itself.
    let charset = content_type.and_then(|value| value.split([';', ',']).find_map(charset));
    let stated = Encoding::for_bom(html).map(|(encoding, _)| encoding).or(charset);
    let html = stated
        .map_or(Cow::Borrowed(html), |encoding| encoding.decode(html).0.into_owned().into_bytes().into());
    let base: RefCell<Option<Url>> = RefCell::new(None);
    let mut links = Vec::new();
    let settings = Settings::new()
        // In strict mode lol_html stops at markup that it finds ambiguous.
        .with_strict(false)
        // A link may have letters that are not ASCII, unescaped.
        .with_adjust_charset_on_meta_tag(stated.is_none())
        .append_element_content_handler(element!("base[href]", |element| {
            let href = element.get_attribute("href").unwrap_or_default();
            // The first one counts, as in browsers, unless it is none, such as `data:`.
            let stated = || join(url, &href).filter(|base| matches!(base.scheme(), "http" | "https"));
            base.borrow_mut().get_or_insert_with(|| stated().unwrap_or_else(|| url.clone()));
            Ok(())
        }))
        .append_element_content_handler(element!("a[href], area[href]", |element| {
            let rel = element.get_attribute("rel").unwrap_or_default();
            let href = element.get_attribute("href").unwrap_or_default();
            if (!obeys || abide::link_follow(&rel))
                && links.len() <= LINKS_MAX
                && let Some(link) = join(base.borrow().as_ref().unwrap_or(url), &href)
            {
                links.push(link);
            }
            Ok(())
        }));
    let is_xml = |value: &str| ["/xml", "+xml"].iter().any(|end| value.to_ascii_lowercase().contains(end));
    scan(&if content_type.is_some_and(is_xml) { with_end_tags(&html).into() } else { html }, settings);
    links
}

/// In HTML, `<title/>` begins a text without end, and the links behind it would be part of that.
fn with_end_tags(xhtml: &[u8]) -> Vec<u8> {
    let mut html = Vec::with_capacity(xhtml.len());
    let mut name: &[u8] = b"";
    for piece in xhtml.split_inclusive(|byte| *byte == b'>') {
        html.extend_from_slice(piece);
        // A `>` may also stand in an attribute of the tag.
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'<') {
            let tag = piece.get(at.saturating_add(1)..).unwrap_or_default();
            name = tag.split(|byte| !byte.is_ascii_alphanumeric()).next().unwrap_or_default();
        }
        if piece.ends_with(b"/>") && !name.is_empty() {
            // Once, or a long name with many ends behind it would fill the memory.
            html.extend([b"</".as_slice(), std::mem::take(&mut name), b">"].concat());
        }
    }
    html
}

fn charset(parameter: &str) -> Option<&'static Encoding> {
    let (name, value) = parameter.split_once('=')?;
    let is_charset = name.trim().eq_ignore_ascii_case("charset");
    is_charset.then(|| Encoding::for_label(value.trim().trim_matches('"').as_bytes())).flatten()
}

/// A page that cannot be read to its end still has the links that were seen.
pub(crate) fn scan(html: &[u8], settings: Settings<'_, '_>) {
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    if rewriter.write(html).is_ok() {
        let _ = rewriter.end();
    }
}

fn join(base: &Url, href: &str) -> Option<Url> {
    // lol_html gives an attribute as it is written, with its character references.
    base.join(htmlize::unescape_attribute(href).trim()).ok()
}

/// Whether a page that was given is an XML sitemap, packed or not.
pub(crate) fn is_sitemap(body: &[u8]) -> bool {
    let body = unpacked(body, SNIFFED);
    let text = String::from_utf8_lossy(body.get(..SNIFFED).unwrap_or(&body));
    ["urlset", "sitemapindex"].into_iter().any(|root| prefix(&text, root).is_some())
}

/// Pages, and further sitemaps, of an XML sitemap, an index of sitemaps, or a plain list; each of them also as a gzip file, whatever
/// its name and type. Of one that is longer than `len_max`, or cut off, what is there counts.
pub(crate) fn of_sitemap(body: &[u8], len_max: usize) -> (Vec<Url>, Vec<Url>) {
    let body = unpacked(body, len_max);
    let text = String::from_utf8_lossy(&body);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if !text.starts_with('<') {
        let urls = text.lines().filter_map(|line| line.trim().parse().ok()).take(LINKS_MAX + 1).collect();
        return (urls, Vec::new());
    }
    let index = prefix(text, "sitemapindex");
    let prefix = index.or_else(|| prefix(text, "urlset")).unwrap_or_default();
    let urls = locations(text, prefix);
    if index.is_some() { (Vec::new(), urls) } else { (urls, Vec::new()) }
}

/// What stands before the names of the elements, if the root is this one: nothing, or a namespace such as `sm:`.
fn prefix<'a>(text: &'a str, root: &str) -> Option<&'a str> {
    text.match_indices(root).find_map(|(at, _)| {
        // A bounded look back, for each of what may be millions of such names.
        let length = text.get(..at)?.bytes().rev().take(PREFIX_MAX).position(|byte| byte == b'<')?;
        let prefix = text.get(at.saturating_sub(length)..at)?;
        let is_namespace =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        (prefix.is_empty() || prefix.strip_suffix(':').is_some_and(is_namespace)).then_some(prefix)
    })
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

/// The URLs in `loc` elements.
fn locations(text: &str, prefix: &str) -> Vec<Url> {
    let (begin, end) = (format!("<{prefix}loc"), format!("</{prefix}loc"));
    // Not by an XML parser, to which a sitemap that was cut is an error as a whole.
    let mut pieces = text.split("<!--");
    let start = pieces.next().unwrap_or_default().to_owned();
    let text =
        pieces.filter_map(|piece| piece.split_once("-->")).fold(start, |text, (_, after)| text + after);
    let found = text.split(&begin).skip(1).filter_map(|after| {
        let (attributes, content) = after.split_once('>')?;
        // Another name may begin like this.
        attributes.chars().next().is_none_or(char::is_whitespace).then_some(())?;
        let (content, _) = content.split_once(&end)?;
        let content = content.trim();
        let cdata = content.strip_prefix("<![CDATA[").and_then(|content| content.strip_suffix("]]>"));
        Some(cdata.map_or_else(|| htmlize::unescape(content), |cdata| cdata.trim().into()).parse().ok())
    });
    found.flatten().take(LINKS_MAX + 1).collect()
}

/// Bytes of a namespace prefix, and the bracket before it.
const PREFIX_MAX: usize = 64;
/// The root of a sitemap comes after a declaration and some comments at most.
const SNIFFED: usize = 4096;
/// Of one page or sitemap; the sitemap protocol has the same bound. One more is read, to say that there are more.
pub(super) const LINKS_MAX: usize = 50_000;

#[cfg(test)]
mod tests {
    use abide_tests::gzip;

    use super::*;

    fn texts(urls: &[Url]) -> Vec<&str> {
        urls.iter().map(Url::as_str).collect()
    }

    #[test]
    fn links_are_read_in_the_charset_of_the_page() {
        let utf_16: Vec<u8> = "<a href=/caf\u{e9}>1</a>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (content_type, html) in [
            (None, &b"<meta charset=windows-1252><a href=/caf\xe9>1</a>"[..]),
            (Some("text/html; Charset=\"Latin1\""), b"<meta charset=utf-8><a href=/caf\xe9>1</a>"),
            (Some("text/html; charset=latin1, text/html"), b"<a href=/caf\xe9>1</a>"),
            (Some("text/html; charset=none"), b"<a href=/caf\xc3\xa9>1</a>"),
            (Some("text/html; charset=utf-16le"), &utf_16),
            (Some("text/html; charset=latin1"), &[b"\xff\xfe", &utf_16[..]].concat()),
        ] {
            let links = of_page(&"http://a/".parse().unwrap(), content_type, html, true);
            assert_eq!(texts(&links), ["http://a/caf%C3%A9"], "{content_type:?}");
        }
    }

    #[test]
    fn sitemaps_may_be_gzip_files_in_several_members() {
        let (first, rest) = (gzip(b"<urlset><loc>http://a/1</loc><loc>http"), gzip(b"://a/2</loc></urlset>"));
        assert_eq!(texts(&of_sitemap(&[first, rest].concat(), 9999).0), ["http://a/1", "http://a/2"]);
        let index = gzip(b"<sitemapindex><loc>http://a/s.xml.gz</loc></sitemapindex>");
        assert_eq!(texts(&of_sitemap(&index, 9999).1), ["http://a/s.xml.gz"]);
    }

    #[test]
    fn a_gzip_file_that_is_cut_or_damaged_counts_as_far_as_it_goes() {
        let lines: String = (0..100).map(|number| format!("http://a/{}\n", number * number)).collect();
        let whole = gzip(lines.as_bytes());
        let mut most = 0;
        for len in 0..whole.len() {
            let found = of_sitemap(&whole[..len], usize::MAX).0;
            assert!(found.len() >= most && found.len() <= 100, "at {len}");
            most = found.len();
            let mut damaged = whole.clone();
            damaged[len] ^= 0x55;
            assert!(of_sitemap(&damaged, 1 << 20).0.len() <= LINKS_MAX);
        }
        assert!(most > 90, "{most}");
    }

    #[test]
    fn empty_elements_of_xhtml_get_their_end_tags_once() {
        assert_eq!(with_end_tags(b"<a b='>'/>/>/>c<d>/><e"), b"<a b='>'/></a>/>/>c<d>/></d><e");
    }

    #[test]
    fn a_gzip_file_that_unpacks_without_end_is_cut() {
        // 4 MB that would be 4 GB.
        let bomb = gzip(&[b' '; 1 << 20]).repeat(4096);
        assert_eq!(unpacked(&bomb, 1 << 22).len(), 1 << 22);
    }
}
