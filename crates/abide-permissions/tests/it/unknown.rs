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

const UNREAD: [HeadEnd; 7] = [
    HeadEnd::ByteLimit,
    HeadEnd::MemoryLimit,
    HeadEnd::Interrupted,
    HeadEnd::Malformed,
    HeadEnd::Unclear,
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
