//! What was not read is not permitted.

use std::time::SystemTime;

use abide_permissions::{Head, HeadEnd, HeadScanner, Meta, Permissions, ReadOptions};
use proptest::prelude::*;

use crate::{options, read_with, rows, scan, scan_as};

const META: &str = "<meta name=robots content=noindex>";

fn typed(content_type: Option<&str>, document: &[u8], size: usize) -> Head {
    scan_as(&options(), content_type, document, size)
}

fn noindex_of(head: Head) -> Option<bool> {
    read_with(&options(), &[], head).noindex_known()
}

const UNREAD: [HeadEnd; 8] = [
    HeadEnd::ByteLimit,
    HeadEnd::MemoryLimit,
    HeadEnd::Interrupted,
    HeadEnd::Malformed,
    HeadEnd::Unclear,
    HeadEnd::UnknownCharset,
    HeadEnd::Undecoded,
    HeadEnd::NotScanned,
];

fn incomplete(options: &ReadOptions) -> Vec<(String, Permissions)> {
    let read = |lines: &[(&str, &str)], head| read_with(options, lines, head);
    let content = Meta::new("robots", format!("a, {}", "a, ".repeat(9000)));
    let noscript = format!("<noscript>{}</noscript><p>", " ".repeat(70_000));
    let by_limits = [
        ("a long field", read(&[("Robots-Tag", &"OtherBot;a, ".repeat(1000))], Head::default())),
        ("a long content", read(&[], Head::from_metas([content], HeadEnd::Ended))),
        ("a long noscript", read(&[], scan(options, noscript.as_bytes(), 4096))),
        ("missing fields", read(&[("Robots-Tag", "*;noarchive")], Head::default()).with_missing_fields()),
    ];
    let unread = UNREAD.map(|end| (format!("a head that ended by {end}"), read(&[], Head::not_scanned(end))));
    by_limits.into_iter().map(|(what, read)| (what.to_owned(), read)).chain(unread).collect()
}

#[test]
fn nothing_is_permitted_by_an_incomplete_reading() {
    let default = ("nothing was read".to_owned(), Permissions::default());
    for (what, permissions) in incomplete(&options()).into_iter().chain([default]) {
        assert_eq!(permissions.noindex_known(), None, "{what}");
        assert!(!permissions.may_index() && !permissions.may_index_at(SystemTime::now()), "{what}");
        assert!(!permissions.may_follow(), "{what}");
        assert_eq!(permissions.snippet_limit(), Some(0), "{what}");
    }
    for end in [HeadEnd::Ended, HeadEnd::Eof, HeadEnd::NotHtml] {
        let whole = read_with(&options(), &[("Robots-Tag", "OtherBot;noindex")], Head::not_scanned(end));
        assert!(whole.may_index() && whole.may_follow(), "{end}");
        assert_eq!((whole.noindex_known(), whole.snippet_limit()), (Some(false), None), "{end}");
    }
    for end in UNREAD {
        let stated = read_with(&options(), &[("Robots-Tag", "*;noindex")], Head::not_scanned(end));
        assert_eq!(stated.noindex_known(), Some(true), "what is stated is known: {end}");
    }
}

#[test]
fn a_caller_may_ask_for_unknown_to_be_permitted_in_every_case() {
    let lax = options().danger_unknown_is_permitted(true);
    for (what, permissions) in incomplete(&lax) {
        assert_eq!(permissions.noindex_known(), None, "what is known does not change: {what}");
        assert!(permissions.may_index() && permissions.may_follow(), "{what}");
        assert_eq!(permissions.snippet_limit(), None, "{what}");
    }
    let stated = read_with(&lax, &[("Robots-Tag", "*;none")], Head::not_scanned(HeadEnd::Interrupted));
    assert!(!stated.may_index() && !stated.may_follow(), "what is stated binds");
}

#[test]
fn the_content_type_is_extracted_as_fetch_does() {
    let page = format!("<!doctype html><title>x</title>{META}<p>");
    let plain = "<!doctype html><title>x</title><p>";
    let unrestricted = "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>x</title></head></html>";
    for row in rows(include_str!("../vectors/content_types.tsv")) {
        let content_type = Some(&*row[0]);
        for size in [1, 3, 1000] {
            let what = format!("{content_type:?} by {size}");
            let noindex = |document: &str| noindex_of(typed(content_type, document.as_bytes(), size));
            let end = |document: &str| typed(content_type, document.as_bytes(), size).end();
            match &*row[1] {
                "scanned" => {
                    assert_eq!((noindex(&page), noindex(plain)), (Some(true), Some(false)), "{what}")
                }
                "other" => {
                    assert_eq!((noindex(&page), end(&page)), (Some(false), HeadEnd::NotHtml), "{what}");
                    let mut scanner = HeadScanner::new(&options(), content_type);
                    assert!(scanner.feed(page.as_bytes()).is_break(), "nothing is read of {what}");
                }
                "xml" => {
                    let xhtml = xhtml("<title>x</title>");
                    assert_eq!((noindex(&xhtml), noindex(unrestricted)), (Some(true), Some(false)), "{what}");
                    assert_eq!(end("<feed xmlns='x'><head>"), HeadEnd::NotHtml, "{what}");
                }
                _ => {
                    assert_eq!(
                        (noindex(unrestricted), end(unrestricted)),
                        (None, HeadEnd::Unclear),
                        "{what}"
                    );
                    assert_eq!(noindex(&xhtml("<title>x</title>")), Some(true), "{what}");
                }
            }
        }
        assert_eq!(
            HeadScanner::of_page(&options(), Some(row[0].as_bytes())).is_some(),
            row[1] != "other",
            "{content_type:?}"
        );
    }
}

const XHTML: Option<&str> = Some("application/xhtml+xml");

/// An XHTML document whose head begins with this, and ends with the meta.
fn xhtml(head: &str) -> String {
    format!(
        "<html xmlns=\"http://www.w3.org/1999/xhtml\" lang='en'><head>{head}<meta name=\"robots\" \
         content=\"noindex\" /></head><body><p>x</p></body></html>"
    )
}

#[test]
fn the_root_of_an_xml_document_decides_whether_it_is_xhtml() {
    let meta = "<meta name='robots' content='noindex'/>";
    let xhtml =
        |root: &str, namespace: &str| format!("<{root} {namespace}><head>{meta}</head><body/></{root}>");
    let namespace = "xmlns='http://www.w3.org/1999/xhtml'";
    let page = xhtml("html", namespace);
    let utf_16 = |text: &str| -> Vec<u8> {
        format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect()
    };
    for (document, noindex, end) in [
        (page.clone().into_bytes(), Some(true), HeadEnd::Ended),
        (
            format!("<?xml version='1.0'?><!-- <feed> --><!DOCTYPE html [ <!-- > --> ]>{page}").into(),
            Some(true),
            HeadEnd::Ended,
        ),
        (
            format!(
                "<h:html xmlns:h='http://www.w3.org/1999/xhtml'><h:head><h:{}</h:head></h:html>",
                &meta[1..]
            )
            .into(),
            Some(true),
            HeadEnd::Ended,
        ),
        (utf_16(&page), Some(true), HeadEnd::Ended),
        // A blank line or a notice before the declaration, as scripts leave it: no XML, and unknown.
        (format!("\n<?xml version='1.0'?>{page}").into(), Some(true), HeadEnd::Malformed),
        (
            format!("<!DOCTYPE html><html><head><title>x</title><link>{meta}</head><p>").into(),
            Some(true),
            HeadEnd::Malformed,
        ),
        (xhtml("html", "xmlns='http://example.com/'").into(), Some(false), HeadEnd::NotHtml),
        (b"<rss version='2.0'><channel><title>noindex</title>".to_vec(), Some(false), HeadEnd::NotHtml),
        (b"\n<?xml version='1.0'?><rss>".to_vec(), Some(false), HeadEnd::NotHtml),
        (b"<?xml version='1.0' encoding='utf-16'?><rss>".to_vec(), Some(false), HeadEnd::NotHtml),
        (utf_16("<feed><entry/></feed>"), Some(false), HeadEnd::NotHtml),
        (format!("<svg><html>{meta}</html></svg>").into(), Some(false), HeadEnd::NotHtml),
        (b"".to_vec(), Some(false), HeadEnd::Eof),
        (b"<?xml version='1.0'?>".to_vec(), Some(false), HeadEnd::Eof),
    ] {
        let what = String::from_utf8_lossy(&document).into_owned();
        for size in [1, 3, 1000] {
            let head = typed(Some("application/xml"), &document, size);
            assert_eq!(head.end(), end, "{what} by {size}");
            assert_eq!(noindex_of(head), noindex, "{what} by {size}");
        }
    }
    let mut scanner = HeadScanner::new(&options(), Some("application/atom+xml"));
    assert!(
        scanner.feed(b"<?xml version='1.0'?><feed ").is_break(),
        "its root is all that is read of a feed"
    );
}

#[test]
fn the_names_of_characters_are_known_with_the_public_identifiers_of_xhtml() {
    let document = |id: &str, head: &str| {
        format!(
            "<!DOCTYPE html PUBLIC \"{id}\" \"x.dtd\"><html xmlns='http://www.w3.org/1999/xhtml'><head><title>\
             Home &raquo; Shop</title>{head}</head></html>"
        )
    };
    for (id, is_known) in [
        ("-//W3C//DTD XHTML 1.0 Strict//EN", true),
        ("-//W3C//DTD XHTML  1.1\n//EN", false),
        ("-//W3C//DTD  XHTML\n1.1//EN", true),
        ("-//WAPFORUM//DTD XHTML Mobile 1.0//EN", true),
        ("-//W3C//DTD HTML 4.01//EN", false),
    ] {
        for size in [1, 1000] {
            let known = noindex_of(typed(XHTML, document(id, "").as_bytes(), size));
            assert_eq!(known, is_known.then_some(false), "{id}");
        }
    }
    let meta = "<meta name='robots' content='a&amp;b, max-snippet&colon;5, &lt;&LT;&rsquo;'/>";
    let head = typed(XHTML, document("-//W3C//DTD XHTML 1.0 Strict//EN", meta).as_bytes(), 1000);
    assert_eq!(head.metas()[0].content(), "a&b, max-snippet:5, <<\u{2019}");
}

#[test]
fn xhtml_is_read_in_every_encoding() {
    let utf_16: Vec<u8> =
        format!("\u{feff}{}", xhtml("")).encode_utf16().flat_map(u16::to_be_bytes).collect();
    let russian = encoding_rs::WINDOWS_1251.encode(&xhtml("<title>\u{43f}\u{440}</title>")).0.into_owned();
    for (content_type, document) in
        [(XHTML, utf_16), (Some("application/xhtml+xml;charset=windows-1251"), russian)]
    {
        for size in [1, 2, 3, 1000] {
            assert_eq!(
                noindex_of(typed(content_type, &document, size)),
                Some(true),
                "{content_type:?} {size}"
            );
        }
    }
}

#[test]
fn xhtml_that_is_not_utf_8_is_unknown() {
    let latin = b"<html xmlns='http://www.w3.org/1999/xhtml'><head><title>\xe9</title></head></html>";
    assert_eq!(noindex_of(typed(XHTML, latin, 3)), None);
}

#[test]
fn hostile_xhtml_ends_in_an_answer() {
    let small = options().with_memory_limit(16 * 1024).unwrap();
    let open = "<html xmlns='http://www.w3.org/1999/xhtml'><head>";
    let attributes: String = (0..20_000).map(|n| format!(" a{n}='b'")).collect();
    for document in [
        format!("{open}{}", "<x>".repeat(100_000)),
        format!("{open}<title>{}", "x".repeat(600_000)),
        format!("{open}<x a='{}'/>", "x".repeat(600_000)),
        format!("{open}<x {attributes}/></head>"),
        format!("{open}<{}", "x".repeat(600_000)),
        format!("{open}<!--{}", "x".repeat(600_000)),
        format!("<!DOCTYPE {}", "x".repeat(600_000)),
        format!("{open}{}", "<title/>".repeat(100_000)),
    ] {
        for size in [1000, usize::MAX] {
            let head = scan_as(&small, XHTML, document.as_bytes(), size);
            let is_limit =
                matches!(head.end(), HeadEnd::MemoryLimit | HeadEnd::ByteLimit | HeadEnd::Malformed);
            assert!(is_limit, "{}…: {}", &document[..60], head.end());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_pieces_of_an_xml_document_do_not_matter(
        pieces in proptest::collection::vec(prop_oneof![
            8 => proptest::sample::select(vec![
                "<html>", "<html xmlns='http://www.w3.org/1999/xhtml'>", "</html>", "<head>", "</head>", "<title>", "</title>",
                "<meta name='robots' content='noindex'/>", "<meta name=\"a\">", "</meta>", "<link/>", "<!--", "-->", "<![CDATA[",
                "]]>", "<?xml version='1.0'?>", "<?x", "?>", "&amp;", "&#65;", "&", ";", "\u{e9}", "\u{1f600}", "<", ">", "\r\n",
                "<x:y xmlns:x='u'>", "</x:y>", "<!DOCTYPE html>", "<!DOCTYPE html [", "]", "'", "\"", "=", " ", "text",
            ]).prop_map(|text| text.as_bytes().to_vec()),
            1 => proptest::collection::vec(any::<u8>(), 0..6),
        ], 0..16),
        well_formed in any::<bool>(),
        size in 1_usize..9,
    ) {
        let mut document = pieces.concat();
        if well_formed {
            document = [b"<html xmlns='http://www.w3.org/1999/xhtml'><head>", &*document].concat();
        }
        let [whole, split] = [usize::MAX, size].map(|size| typed(XHTML, &document, size));
        prop_assert_eq!(whole.metas(), split.metas());
        prop_assert_eq!(whole.end(), split.end());
    }
}
