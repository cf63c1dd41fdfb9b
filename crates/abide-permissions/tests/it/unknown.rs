//! What was not read is not permitted (the requirement's section 14).

use std::time::SystemTime;

use abide_permissions::{Head, HeadEnd, HeadScanner, Meta, Permissions, ReadOptions, reading_of};
use proptest::prelude::*;

use crate::{options, read, read_with, scan};

const META: &str = "<meta name=robots content=noindex>";

/// Scans a document of this Content-Type in pieces of this size.
fn typed(content_type: Option<&str>, document: &[u8], size: usize) -> Head {
    typed_with(&options(), content_type, document, size)
}

fn typed_with(options: &ReadOptions, content_type: Option<&str>, document: &[u8], size: usize) -> Head {
    let mut scanner = HeadScanner::new(options, content_type);
    for piece in document.chunks(size) {
        if scanner.feed(piece).is_break() {
            break;
        }
    }
    scanner.finish()
}

fn noindex_of(head: Head) -> Option<bool> {
    read_with(&options(), &[], head).noindex_known()
}

/// Everything that leaves a reading incomplete.
fn incomplete() -> Vec<(&'static str, Permissions)> {
    let long = "OtherBot;a, ".repeat(1000);
    let long_content = format!("a, {}", "a, ".repeat(9000));
    let wide = options().with_content_limit(8192).unwrap();
    let noscript = format!("<noscript>{}</noscript><p>", " ".repeat(70_000));
    let mut cases = vec![
        ("nothing was read", Permissions::default()),
        ("a field over its limit", read(&[("Robots-Tag", &long)])),
        (
            "a content over its limit",
            read_with(&wide, &[], Head::from_metas([Meta::new("robots", long_content)], HeadEnd::Ended)),
        ),
        (
            "a noscript over its limit",
            read_with(&options(), &[], scan(&options(), noscript.as_bytes(), 4096)),
        ),
    ];
    for end in [
        HeadEnd::ByteLimit,
        HeadEnd::MemoryLimit,
        HeadEnd::Interrupted,
        HeadEnd::Malformed,
        HeadEnd::Unclear,
        HeadEnd::Undecoded,
        HeadEnd::NotScanned,
    ] {
        cases.push((
            "a head that was not read to its end",
            read_with(&options(), &[], Head::not_scanned(end)),
        ));
    }
    cases
}

#[test]
fn nothing_is_permitted_by_an_incomplete_reading() {
    for (what, permissions) in incomplete() {
        assert_eq!(permissions.noindex_known(), None, "{what}: {}", permissions.head_end());
        assert!(!permissions.may_index(), "{what}: {}", permissions.head_end());
        assert!(!permissions.may_index_at(SystemTime::now()), "{what}: {}", permissions.head_end());
        assert!(!permissions.may_follow(), "{what}: {}", permissions.head_end());
        assert_eq!(permissions.snippet_limit(), Some(0), "{what}: {}", permissions.head_end());
    }
    let missing = read(&[("Robots-Tag", "*;noarchive")]).with_missing_fields();
    assert_eq!((missing.noindex_known(), missing.may_index()), (None, false));
    let whole = read(&[("Robots-Tag", "OtherBot;noindex")]);
    assert!(whole.may_index() && whole.may_follow());
    assert_eq!((whole.noindex_known(), whole.snippet_limit()), (Some(false), None));
}

#[test]
fn a_caller_may_ask_for_unknown_to_be_permitted_in_every_case() {
    let lax = options().danger_unknown_is_permitted(true);
    assert!(lax.is_unknown_permitted() && !options().is_unknown_permitted());
    let long = "OtherBot;a, ".repeat(1000);
    let cut_content =
        Head::from_metas([Meta::new("robots", format!("a, {}", "a, ".repeat(9000)))], HeadEnd::Ended);
    let noscript = format!("<noscript>{}</noscript><p>", " ".repeat(70_000));
    let mut cases = vec![
        read_with(&lax, &[("Robots-Tag", &long)], Head::default()),
        read_with(&lax, &[], cut_content),
        read_with(&lax, &[], scan(&lax, noscript.as_bytes(), 4096)),
        read_with(&lax, &[], Head::default()).with_missing_fields(),
    ];
    let ends = [
        HeadEnd::ByteLimit,
        HeadEnd::MemoryLimit,
        HeadEnd::Interrupted,
        HeadEnd::Malformed,
        HeadEnd::Unclear,
        HeadEnd::Undecoded,
        HeadEnd::NotScanned,
    ];
    cases.extend(ends.map(|end| read_with(&lax, &[], Head::not_scanned(end))));
    for permissions in cases {
        let end = permissions.head_end();
        assert_eq!(permissions.noindex_known(), None, "what is known does not change: {end}");
        assert!(permissions.may_index() && permissions.may_follow(), "{end}");
        assert_eq!(permissions.snippet_limit(), None, "{end}");
    }
    let stated = read_with(&lax, &[("Robots-Tag", "*;none")], Head::not_scanned(HeadEnd::Interrupted));
    assert!(!stated.may_index() && !stated.may_follow(), "what is stated binds");
}

#[test]
fn the_content_type_is_extracted_as_fetch_does() {
    let page = format!("<!doctype html><title>x</title>{META}<p>");
    let plain = "<!doctype html><title>x</title><p>";
    for content_type in [
        "text/html",
        "Text/HTML;charset=utf-8",
        "text/html; charset=utf-8; charset=latin1",
        "text/html;charset=\"utf-8,text/plain\"",
        "text/html charset=utf-8",
        "text/html, text/html",
        "text/plain, text/html",
        "text/html, text/plain",
        "text/html charset=utf-8, text/plain",
        "unknown/unknown, text/plain",
        "text/html,",
        "text/html, */*",
        "text/html;",
        "text/html;charset",
        " text/html ",
        "*/*",
        "",
        " ",
        "unknown/unknown",
        "application/unknown",
        "Application/Unknown; charset=utf-8",
        "text",
        "text/",
        "/html",
        "html",
        "text/html/x",
        "te xt/html",
        ";charset=utf-8",
    ] {
        for size in [1, 3, 1000] {
            let what = format!("{content_type:?} by {size}");
            assert_eq!(noindex_of(typed(Some(content_type), page.as_bytes(), size)), Some(true), "{what}");
            assert_eq!(noindex_of(typed(Some(content_type), plain.as_bytes(), size)), Some(false), "{what}");
            assert!(HeadScanner::scans(Some(content_type.as_bytes())), "{what}");
        }
    }
    for content_type in [
        "text/plain",
        "image/png;charset=text/html",
        "text/plain, image/png",
        "text/htmlx",
        "*/*, text/plain",
    ] {
        assert_eq!(typed(Some(content_type), page.as_bytes(), 100).end(), HeadEnd::NotHtml, "{content_type}");
        assert!(!HeadScanner::scans(Some(content_type.as_bytes())), "{content_type}");
    }
}

#[test]
fn content_types_that_say_html_and_xml_leave_it_open() {
    let plain = "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>x</title></head></html>";
    for content_type in [
        "text/html, application/xhtml+xml",
        "application/xhtml+xml, text/html",
        "unknown/unknown, application/xhtml+xml",
        "application/xhtml+xml, text/plain, text",
    ] {
        let head = typed(Some(content_type), plain.as_bytes(), 7);
        assert_eq!((noindex_of(head.clone()), head.end()), (None, HeadEnd::Unclear), "{content_type}");
        let stated = xhtml("<title>x</title>");
        assert_eq!(noindex_of(typed(Some(content_type), stated.as_bytes(), 7)), Some(true), "{content_type}");
    }
}

#[test]
fn a_document_of_unknown_type_that_may_be_xml_is_unknown() {
    let xml = "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><head><title/>\
               <meta name='robots' content='noindex'/></head></html>";
    for size in [1, 2, 1000] {
        for content_type in [None, Some("*/*")] {
            assert_ne!(noindex_of(typed(content_type, xml.as_bytes(), size)), Some(false), "{size}");
            let marked = format!("\u{feff} {xml}");
            assert_ne!(noindex_of(typed(content_type, marked.as_bytes(), size)), Some(false), "{size}");
        }
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
fn xhtml_is_read_as_xml_and_in_pieces_of_any_size() {
    let prefixed = "<h:html xmlns:h='http://www.w3.org/1999/xhtml'><h:head><h:title/>\
                    <h:meta name='robots' content='noindex'/></h:head></h:html>";
    let declared = |encoding: &str| format!("<?xml version=\"1.0\" encoding=\"{encoding}\"?>\n{}", xhtml(""));
    let documents = [
        xhtml(""),
        xhtml("<script src=\"a.js\"/>"),
        xhtml("<title/>"),
        xhtml("<style/>"),
        xhtml("<title><![CDATA[</title><body>]]></title>"),
        xhtml("<![CDATA[ x ]]>"),
        xhtml("text <div/> &amp; &#x41; &lt;"),
        xhtml("<!-- </head> --><?pi </head> ?>"),
        xhtml("<script><![CDATA[ if (a < b && c) ]]></script>"),
        xhtml("<noscript><link rel='x' href='y'/></noscript><iframe/>"),
        xhtml("<title>\u{e9}\u{65e5}\u{672c}\u{1f600}</title>"),
        prefixed.to_owned(),
        declared("UTF-8"),
        declared("utf-8"),
        declared("windows-1251"),
        declared("iso-8859-1"),
        format!("<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'x.dtd'>\n{}", xhtml("<title/>")),
        format!("\u{feff}{}", xhtml("")),
        "<html><head><meta name='robots' content='&#110;oindex'></meta></head></html>".to_owned(),
    ];
    for document in documents {
        for size in 1..40 {
            let head = typed(XHTML, document.as_bytes(), size);
            assert_eq!(noindex_of(head.clone()), Some(true), "{document} by {size}: {}", head.end());
            assert_eq!(head.end(), HeadEnd::Ended, "{document} by {size}");
        }
    }
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
fn xhtml_without_a_restriction_is_known_to_have_none() {
    for document in [
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><title/></head>& what follows is not read",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head/><body><meta name='robots' content='noindex'/></body></html>",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><x:meta xmlns:x='urn:x' name='robots' content='noindex'/></head></html>",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><META name='robots' content='noindex'/></head></html>",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><template><meta name='robots' content='noindex'/></template></head></html>",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><!-- <meta name='robots' content='noindex'/> --></head></html>",
        "<svg xmlns='http://www.w3.org/2000/svg'><head><meta name='robots' content='noindex'/></head></svg>",
    ] {
        for size in [1, 5, 1000] {
            assert_eq!(
                noindex_of(typed(XHTML, document.as_bytes(), size)),
                Some(false),
                "{document} by {size}"
            );
        }
    }
}

#[test]
fn xhtml_that_is_not_well_formed_before_its_head_ends_is_unknown() {
    for document in [
        "",
        "x",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>x</head><meta name='robots' content='noindex'/>",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>x</title>",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><link></head></html>",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>&nbsp;</title></head></html>",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>a & b</title></head></html>",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><link a=b/></head></html>",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><h:title/></head></html>",
        "<!DOCTYPE html [<!ENTITY a 'b'>]><html xmlns='http://www.w3.org/1999/xhtml'><head/></html>",
        "<?xml version='1.0' encoding='x-none'?><html xmlns='http://www.w3.org/1999/xhtml'><head/></html>",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>\0</title></head></html>",
    ] {
        for size in [1, 5, 1000] {
            let head = typed(XHTML, document.as_bytes(), size);
            assert_eq!(noindex_of(head.clone()), None, "{document} by {size}: {}", head.end());
        }
    }
    let broken = [xhtml("").as_bytes(), b"<"].concat();
    assert_eq!(noindex_of(typed(XHTML, &broken, 10)), Some(true), "after the head nothing matters");
    let stated = "<html><head><meta name='robots' content='noindex'/><p></head>";
    assert_eq!(noindex_of(typed(XHTML, stated.as_bytes(), 3)), Some(true), "what was stated before counts");
    let soup = format!("<title>x</title>{META}<p>");
    for size in [1, 7, 1000] {
        let head = typed(XHTML, soup.as_bytes(), size);
        assert_eq!(
            (noindex_of(head.clone()), head.end()),
            (Some(true), HeadEnd::Malformed),
            "what HTML readers see counts"
        );
    }
    let latin = b"<html xmlns='http://www.w3.org/1999/xhtml'><head><title>\xe9</title></head></html>";
    assert_eq!(noindex_of(typed(XHTML, latin, 3)), None, "no UTF-8");
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
            let head = typed_with(&small, XHTML, document.as_bytes(), size);
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

#[test]
fn salvage_keeps_the_known_rules_of_a_piece_that_splits_at_spaces() {
    for (line, rules) in [
        ("noindex nofollow, foo;bar", "noindex, nofollow"),
        ("foo;bar, NOINDEX nofollow", "noindex, nofollow"),
        ("noindex really, foo;bar", "noindex"),
        ("noindex\tnofollow, *;nosnippet", "noindex, nofollow, nosnippet"),
        ("examplebot: noindex nofollow, foo;bar", "noindex, nofollow"),
        ("otherbot: noindex nofollow, foo;bar", ""),
        ("max-snippet: 20, foo;bar", "max-snippet:20"),
        ("max-snippet: 20 noindex, foo;bar", "noindex, max-snippet:20"),
        ("unavailable_after: 25 Jun 2010 15:00:00 PST, foo;bar", "unavailable_after:2010-06-25T23:00:00Z"),
        ("none at all, foo;bar", "noindex, nofollow"),
        ("no index, foo;bar", ""),
        ("*;nosnippet foo, ExampleBot;noindex", "noindex"),
    ] {
        assert_eq!(reading_of(line.as_bytes(), &options()), "sf-salvage", "{line}");
        for name in ["X-Robots-Tag", "Robots-Tag"] {
            assert_eq!(read(&[(name, line)]).rules().to_string(), rules, "{line}");
        }
    }
}
