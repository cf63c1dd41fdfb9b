//! The links of an HTML page.
//!
//! lol_html and not the head scanner of `abide-permissions`: links are all over the page, and a link that is
//! missed is no breach.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

use encoding_rs::{EncoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};
use lol_html::html_content::Element;
use lol_html::{HtmlRewriter, Settings, element, end_tag, text};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::crawl::sitemap;

/// What a page or a sitemap names.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) pages: Vec<Url>,
    /// Links that say nofollow, ugc or sponsored.
    pub(crate) nofollow: Vec<Url>,
    pub(crate) sitemaps: Vec<Url>,
    /// Images, styles and scripts, of a crawl that checks them.
    #[serde(skip)]
    pub(crate) assets: Vec<Url>,
    /// Sources of frames and targets of refreshes, which are not followed.
    pub(crate) frames: usize,
    /// What stands in the place of a URL and is none.
    pub(crate) no_url: usize,
    /// It is a sitemap or a feed.
    pub(crate) is_sitemap: bool,
    /// It names more than is read of it.
    pub(crate) is_cut: bool,
    /// Bytes of the URLs.
    #[serde(skip)]
    pub(super) bytes: usize,
}

impl Found {
    pub(crate) fn len(&self) -> usize {
        let [pages, nofollow, sitemaps, assets] =
            [&self.pages, &self.nofollow, &self.sitemaps, &self.assets].map(Vec::len);
        pages.saturating_add(nofollow).saturating_add(sitemaps).saturating_add(assets)
    }

    /// Joins one more with its base, if there is room for both: each of 50,000 links may be short, and their
    /// base long.
    pub(crate) fn join(&mut self, base: &Url, text: &str, encoding: &'static Encoding) -> Option<Url> {
        let bytes = self.bytes.saturating_add(base.as_str().len()).saturating_add(text.len());
        if self.len() >= LINKS_MAX || bytes > LINK_BYTES_MAX {
            self.is_cut = true;
            return None;
        }
        let joined = join(base, text, encoding)?;
        // Escapes make it up to three times as long.
        self.bytes = self.bytes.saturating_add(joined.as_str().len());
        Some(joined)
    }
}

/// Links of `a` and `area` elements, in order, and the assets if those count. `refresh` is the response's
/// header field of that name.
pub(crate) fn of_page(
    url: &Url,
    content_type: Option<&str>,
    refresh: Option<&str>,
    has_assets: bool,
    html: &[u8],
) -> Found {
    let encoding = encoding_of(content_type, html);
    let html = encoding.decode(html).0;
    // As browsers have it: where no scripts run, what is for that counts, too.
    let unscripted = RefCell::new(String::new());
    let page =
        RefCell::new(Page { found: Found::default(), base: None, url, encoding, refresh: false, has_assets });
    let is_xml = |value: &str| ["/xml", "+xml"].iter().any(|end| value.to_ascii_lowercase().contains(end));
    let html = if content_type.is_some_and(is_xml) { with_end_tags(&html).into() } else { html };
    read(&html, &page, &unscripted);
    let html = unscripted.take();
    read(&html, &page, &RefCell::default());
    let page = page.into_inner();
    let mut found = page.found;
    found.frames = found.frames.saturating_add(usize::from(page.refresh || refresh.is_some_and(has_target)));
    found
}

/// What is read of a page, with what that depends on.
struct Page<'a> {
    found: Found,
    base: Option<Url>,
    url: &'a Url,
    encoding: &'static Encoding,
    /// A meta leads elsewhere.
    refresh: bool,
    has_assets: bool,
}

impl Page<'_> {
    /// The first base counts, as in browsers, unless it is none, such as `data:`.
    fn rebase(&mut self, href: &str) {
        if self.base.is_none() {
            let stated = join(self.url, href, self.encoding);
            let stated = stated.filter(|base| matches!(base.scheme(), "http" | "https"));
            self.base = Some(stated.unwrap_or_else(|| self.url.clone()));
        }
    }

    fn link(&mut self, rel: &str, href: &str) {
        let base = self.base.as_ref().unwrap_or(self.url);
        if let Some(link) = self.found.join(base, href, self.encoding) {
            let may_follow = abide::link_follow(rel);
            (if may_follow { &mut self.found.pages } else { &mut self.found.nofollow }).push(link);
        }
    }

    fn asset(&mut self, src: &str) {
        let is_some = self.has_assets && !src.trim().is_empty();
        let base = self.base.as_ref().unwrap_or(self.url);
        if let Some(asset) = is_some.then(|| self.found.join(base, src, self.encoding)).flatten() {
            // What stands in the page itself, such as `data:`, is not requested.
            self.found.assets.extend(Some(asset).filter(|url| matches!(url.scheme(), "http" | "https")));
        }
    }

    fn frame(&mut self, src: &str) {
        let is_page =
            !src.trim().is_empty() && join(self.url, src, self.encoding).is_none_or(|url| url.has_host());
        self.found.frames = self.found.frames.saturating_add(usize::from(is_page));
    }
}

/// Reads HTML, which may be a part of the page. What is for those without scripts goes to `unscripted`.
fn read(html: &str, page: &RefCell<Page<'_>>, unscripted: &RefCell<String>) {
    // Nothing in a template is part of the page.
    let templates = std::rc::Rc::new(Cell::new(0_usize));
    let inside = std::rc::Rc::clone(&templates);
    let is_template = || templates.get() > 0;
    let attribute = |element: &Element<'_, '_>, name: &str| {
        // lol_html gives an attribute as it is written, with its character references.
        let value = element.get_attribute(name).unwrap_or_default();
        htmlize::unescape_attribute(value).into_owned()
    };
    let settings = Settings::new()
        // In strict mode lol_html stops at markup that it finds ambiguous.
        .with_strict(false)
        .append_element_content_handler(element!("template", move |element| {
            let outside = std::rc::Rc::clone(&inside);
            inside.set(inside.get().saturating_add(1));
            element.on_end_tag(end_tag!(move |_| {
                outside.set(outside.get().saturating_sub(1));
                Ok(())
            }))?;
            Ok(())
        }))
        .append_element_content_handler(element!("base[href]", |element| {
            if !is_template() {
                page.borrow_mut().rebase(&attribute(element, "href"));
            }
            Ok(())
        }))
        .append_element_content_handler(element!("a[href], area[href]", |element| {
            if !is_template() {
                page.borrow_mut().link(&attribute(element, "rel"), &attribute(element, "href"));
            }
            Ok(())
        }))
        .append_element_content_handler(element!("img, source, script[src], link[href]", |element| {
            if !is_template() {
                let (src, srcset) = (attribute(element, "src"), attribute(element, "srcset"));
                let is_link = element.tag_name() == "link" && is_asset(&attribute(element, "rel"));
                let href = if is_link { attribute(element, "href") } else { String::new() };
                let mut page = page.borrow_mut();
                [&*src, &*href].into_iter().chain(candidates(&srcset)).for_each(|url| page.asset(url));
            }
            Ok(())
        }))
        .append_element_content_handler(element!("frame[src], iframe[src]", |element| {
            if !is_template() {
                page.borrow_mut().frame(&attribute(element, "src"));
            }
            Ok(())
        }))
        .append_element_content_handler(element!("meta[http-equiv='refresh' i]", |element| {
            page.borrow_mut().refresh |= !is_template() && has_target(&attribute(element, "content"));
            Ok(())
        }))
        .append_element_content_handler(text!("noscript, noframes", |text| {
            if !is_template() {
                unscripted.borrow_mut().push_str(text.as_str());
            }
            Ok(())
        }));
    scan(html.as_bytes(), settings);
}

/// Whether a `link` is needed to show the page.
fn is_asset(rel: &str) -> bool {
    rel.split_ascii_whitespace().any(|name| {
        ["stylesheet", "icon", "apple-touch-icon", "manifest"].contains(&&*name.to_ascii_lowercase())
    })
}

/// The URLs of a `srcset`: each has a width or a density behind it, or a comma.
fn candidates(srcset: &str) -> impl Iterator<Item = &str> {
    let mut rest = srcset;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|letter: char| letter == ',' || letter.is_ascii_whitespace());
        let end = rest.find(|letter: char| letter.is_ascii_whitespace()).unwrap_or(rest.len());
        let (url, behind) = rest.split_at(end);
        let is_alone = url.ends_with(',');
        rest = if is_alone { behind } else { behind.split_once(',').map_or("", |(_, next)| next) };
        (!url.is_empty()).then(|| url.trim_end_matches(','))
    })
}

/// Whether a refresh leads to another page: `0; url=/en/`.
fn has_target(refresh: &str) -> bool {
    let rest =
        refresh.trim_start().trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let rest = rest
        .trim_start_matches(|letter: char| letter.is_ascii_whitespace() || b";,".contains(&(letter as u8)));
    !rest.is_empty()
}

/// The encoding of a page, as browsers have it: a byte order mark goes before the Content-Type, and that
/// before what the page says of itself.
fn encoding_of(content_type: Option<&str>, html: &[u8]) -> &'static Encoding {
    let marked = Encoding::for_bom(html).map(|(encoding, _)| encoding);
    let stated = || content_type.and_then(charset_of);
    let said = || sitemap::xml_encoding(html).or_else(|| meta_charset(html));
    marked.or_else(stated).or_else(said).unwrap_or(UTF_8)
}

/// That of a Content-Type.
pub(crate) fn charset_of(content_type: &str) -> Option<&'static Encoding> {
    content_type.split([';', ',']).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        is_charset.then(|| Encoding::for_label(value.trim().trim_matches('"').as_bytes())).flatten()
    })
}

/// That of a `meta charset`, or of one that stands for a Content-Type.
fn meta_charset(html: &[u8]) -> Option<&'static Encoding> {
    let found = Cell::new(None);
    let settings =
        Settings::new().with_strict(false).append_element_content_handler(element!("meta", |meta| {
            let own = meta.get_attribute("charset").and_then(|label| Encoding::for_label(label.as_bytes()));
            let is_type =
                || meta.get_attribute("http-equiv").is_some_and(|it| it.eq_ignore_ascii_case("content-type"));
            let content =
                || meta.get_attribute("content").filter(|_| is_type()).as_deref().and_then(charset_of);
            found.set(found.get().or(own).or_else(content));
            Ok(())
        }));
    scan(html.get(..META_WITHIN).unwrap_or(html), settings);
    // The HTML standard: what can be read as ASCII is not UTF-16.
    found.get().map(|encoding| if encoding == UTF_16BE || encoding == UTF_16LE { UTF_8 } else { encoding })
}

/// In HTML, `<title/>` begins a text without end, and the links behind it would be part of that.
fn with_end_tags(xhtml: &str) -> String {
    let mut html = String::with_capacity(xhtml.len());
    let mut name = "";
    for piece in xhtml.split_inclusive('>') {
        html.push_str(piece);
        // A `>` may also stand in an attribute of the tag.
        if let Some((_, tag)) = piece.rsplit_once('<') {
            name = tag.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
        }
        if piece.ends_with("/>") && !name.is_empty() {
            // Once, or a long name with many ends behind it would fill the memory.
            html.extend(["</", std::mem::take(&mut name), ">"]);
        }
    }
    html
}

/// A page that cannot be read to its end still has the links that were seen.
pub(crate) fn scan(html: &[u8], settings: Settings<'_, '_>) {
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    if rewriter.write(html).is_ok() {
        let _ = rewriter.end();
    }
}

/// The URL standard has a query in the encoding of its page, and the rest in UTF-8.
fn join(base: &Url, href: &str, encoding: &'static Encoding) -> Option<Url> {
    let options = Url::options().base_url(Some(base));
    let encode: &dyn Fn(&str) -> Cow<'_, [u8]> =
        &|query| in_encoding(query, encoding.output_encoding()).into();
    options.encoding_override(Some(encode)).parse(href.trim()).ok()
}

/// What the encoding lacks becomes a character reference, percent-encoded, as in the forms of browsers.
fn in_encoding(text: &str, encoding: &'static Encoding) -> Vec<u8> {
    let (mut encoder, mut bytes, mut rest) = (encoding.new_encoder(), Vec::new(), text);
    loop {
        let len = encoder.max_buffer_length_from_utf8_without_replacement(rest.len()).unwrap_or(rest.len());
        let mut room = vec![0; len];
        let (result, read, written) = encoder.encode_from_utf8_without_replacement(rest, &mut room, true);
        bytes.extend_from_slice(room.get(..written).unwrap_or_default());
        let EncoderResult::Unmappable(letter) = result else { return bytes };
        bytes.extend_from_slice(format!("%26%23{}%3B", u32::from(letter)).as_bytes());
        rest = rest.get(read..).unwrap_or_default();
    }
}

/// Of one page or sitemap; the sitemap protocol has the same bound.
pub(super) const LINKS_MAX: usize = 50_000;
/// Bytes of these URLs, each counted with its base: some hundred for each of them, for the few that are that
/// many.
const LINK_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Browsers look no further than 1024 bytes at first.
const META_WITHIN: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn links(content_type: Option<&str>, html: &[u8]) -> Vec<String> {
        let found = of_page(&"http://a/".parse().unwrap(), content_type, None, false, html);
        found.pages.into_iter().map(String::from).collect()
    }

    #[test]
    fn links_are_read_in_the_charset_of_the_page() {
        let utf_16: Vec<u8> = "<a href=/caf\u{e9}>1</a>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (content_type, html) in [
            (None, &b"<meta charset=windows-1252><a href=/caf\xe9>1</a>"[..]),
            (
                None,
                b"<meta http-equiv=Content-Type content='text/html; charset=latin1'><a href=/caf\xe9>1</a>",
            ),
            (None, b"<?xml version='1.0' encoding='iso-8859-1'?><a href=/caf\xe9>1</a>"),
            (Some("text/html; Charset=\"Latin1\""), b"<meta charset=utf-8><a href=/caf\xe9>1</a>"),
            (Some("text/html; charset=latin1, text/html"), b"<a href=/caf\xe9>1</a>"),
            (Some("text/html; charset=none"), b"<a href=/caf\xc3\xa9>1</a>"),
            (Some("text/html; charset=utf-16le"), &utf_16),
            (Some("text/html; charset=latin1"), &[b"\xff\xfe", &utf_16[..]].concat()),
        ] {
            assert_eq!(links(content_type, html), ["http://a/caf%C3%A9"], "{content_type:?}");
        }
    }

    #[test]
    fn queries_are_in_the_encoding_of_the_page() {
        for (charset, html, link) in [
            ("iso-8859-1", &b"<a href='/\xe9?q=\xe9'>1</a>"[..], "http://a/%C3%A9?q=%E9"),
            ("shift_jis", b"<a href='/?q=\x93\xfa\x96\x7b'>1</a>", "http://a/?q=%93%FA%96{"),
            ("utf-8", b"<a href='/?q=\xc3\xa9'>1</a>", "http://a/?q=%C3%A9"),
            // As what the encoding lacks.
            ("iso-8859-1", b"<a href='/?q=&#x3b1;x'>1</a>", "http://a/?q=%26%23945%3Bx"),
            ("utf-16le", b"<\0a\0 \0h\0r\0e\0f\0=\0?\0\xe9\0>\0", "http://a/?%C3%A9"),
        ] {
            assert_eq!(links(Some(&format!("text/html; charset={charset}")), html), [link], "{charset}");
        }
    }

    #[test]
    fn what_is_no_part_of_the_page_has_no_links() {
        let html = b"<template><base href=/no/><a href=1>1</a><template><a href=2>2</a></template><a href=3>3</a></template>\
            <a href=4>4</a><noscript><a href=5>5</a></noscript><!-- <a href=6>6</a> --><script>'<a href=7>'</script>";
        assert_eq!(links(None, html), ["http://a/4", "http://a/5"]);
    }

    #[test]
    fn a_rel_is_read_as_it_is_meant() {
        let html = b"<a rel='nofollow,x' href=1>1</a><a rel='ugc, y' href=2>2</a><a rel=no&#102;ollow href=3>3</a><a rel=x href=4>4</a>";
        let found = of_page(&"http://a/".parse().unwrap(), None, None, false, html);
        assert_eq!((found.pages.len(), found.nofollow.len()), (1, 3));
    }

    #[test]
    fn frames_and_refreshes_are_counted() {
        for (html, refresh, frames) in [
            (&b"<frameset><frame src=/a><frame src=/b></frameset>"[..], None, 2),
            (b"<iframe src=/a></iframe><iframe src=about:blank></iframe><iframe src=''></iframe>", None, 1),
            (b"<meta http-equiv=Refresh content='0; URL=/en/'>", None, 1),
            (b"<meta http-equiv=refresh content=300>", None, 0),
            (b"", Some("0;/en/"), 1),
            (b"", Some("5"), 0),
        ] {
            let found = of_page(&"http://a/".parse().unwrap(), None, refresh, false, html);
            assert_eq!(found.frames, frames, "{}", String::from_utf8_lossy(html));
        }
    }

    #[test]
    fn what_a_page_is_shown_with_is_an_asset() {
        let html = b"<link rel='STYLESHEET x' href=1><link rel=next href=no><script src=2></script><img src=3 \
            srcset='4 2x, 5,6 100w,\n7'><picture><source srcset='8'></picture><img src=data:,x><script>x</script>";
        let found = of_page(&"http://a/".parse().unwrap(), None, None, true, html);
        let assets: Vec<&str> = found.assets.iter().map(Url::path).collect();
        assert_eq!(assets.join(" "), "/1 /2 /3 /4 /5,6 /7 /8");
    }

    #[test]
    fn a_long_base_fills_no_more_than_there_is_room_for() {
        let html = format!("<base href='/{}/'>{}", "x".repeat(100_000), "<a href=y>y</a>".repeat(LINKS_MAX));
        let found = of_page(&"http://a/".parse().unwrap(), None, None, false, html.as_bytes());
        let bytes: usize = found.pages.iter().map(|url| url.as_str().len()).sum();
        assert!(found.is_cut && bytes <= LINK_BYTES_MAX && !found.pages.is_empty(), "{bytes}");
    }

    #[test]
    fn empty_elements_of_xhtml_get_their_end_tags_once() {
        assert_eq!(with_end_tags("<a b='>'/>/>/>c<d>/><e"), "<a b='>'/></a>/>/>c<d>/></d><e");
    }
}
