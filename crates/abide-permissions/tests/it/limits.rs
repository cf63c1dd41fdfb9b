//! Limits and decoding: what a hostile or strange document may cost, and how it ends.

use abide_permissions::testing::strays;
use std::time::SystemTime;

use abide_permissions::{Fetched, Head, HeadEnd, HeadScanner, PermissionRecord, ReadOptions};

use crate::{options, read_with, scan, scan_as};

const META: &str = "<meta name=robots content=noindex>";

fn small() -> ReadOptions {
    options().with_head_limit(8192).unwrap().with_memory_limit(16 * 1024).unwrap()
}

fn noindex(head: Head) -> bool {
    read_with(&options(), &[], head).rules().noindex()
}

#[test]
fn a_line_of_many_groups_is_kept_once() {
    let line = "*=noindex;".repeat(500);
    let read = read_with(&options(), &[("X-Robots-Tag", &line)], Head::default());
    assert_eq!((read.statements().len(), read.rules().noindex()), (1, true));
}

#[test]
fn the_byte_limit_falls_where_it_falls() {
    let filler = " ".repeat(8192 - META.len() - 20);
    let document = format!("{filler}{META}<p>{}", "x".repeat(100));
    for length in 8100..document.len() {
        let head = scan(&small(), &document.as_bytes()[..length], 1000);
        let meta_is_seen = length >= filler.len() + META.len();
        assert_eq!(head.metas().len(), usize::from(meta_is_seen), "{length}");
        let expected = if length >= filler.len() + META.len() + 3 { HeadEnd::Ended } else { HeadEnd::Eof };
        assert_eq!(head.end(), expected, "{length}");
    }
    for shift in 0..60 {
        let document = format!("{}{META}", " ".repeat(8192 - shift));
        let head = scan(&small(), document.as_bytes(), 999);
        assert_eq!(head.metas().len(), usize::from(shift >= META.len()), "{shift}");
        let expected = if shift >= META.len() { HeadEnd::Eof } else { HeadEnd::ByteLimit };
        assert_eq!(head.end(), expected, "{shift}");
        assert_eq!(head.bytes(), document.len().min(8192));
    }
}

#[test]
fn a_huge_tag_meets_the_memory_limit_a_comment_does_not() {
    let attribute = format!("<link a='{}'>{META}", "x".repeat(64 * 1024));
    let default = ReadOptions::new("ExampleBot".parse().unwrap());
    assert!(noindex(scan(&default, attribute.as_bytes(), usize::MAX)));
    let tight = default.clone().with_memory_limit(16 * 1024).unwrap();
    let head = scan(&tight, format!("{META}{attribute}").as_bytes(), usize::MAX);
    assert_eq!(head.end(), HeadEnd::MemoryLimit);
    assert_eq!(head.metas().len(), 1, "what was found before counts");
    for document in [
        format!("<!--{}-->{META}", "x".repeat(64 * 1024)),
        format!("<style>{}</style>{META}", "x".repeat(480 * 1024)),
        format!("<title>{}</title>{META}", "x".repeat(64 * 1024)),
        format!("</p a='{}'>{META}", "x".repeat(64 * 1024)),
    ] {
        assert!(noindex(scan(&tight, document.as_bytes(), usize::MAX)), "{}…", &document[..20]);
    }
}

#[test]
fn thousands_of_attributes_and_templates_end_in_an_answer() {
    let default = ReadOptions::new("ExampleBot".parse().unwrap());
    let attributes: String = (0..20_000).map(|n| format!(" a{n}=b")).collect();
    for document in [format!("<link{attributes}>{META}"), format!("{}{META}", "<template>".repeat(20_000))] {
        for memory in [16 * 1024, 1024 * 1024, 8 * 1024 * 1024] {
            let options = default.clone().with_memory_limit(memory).unwrap();
            let head = scan(&options, document.as_bytes(), usize::MAX);
            let is_known = matches!(head.end(), HeadEnd::MemoryLimit | HeadEnd::Eof);
            assert!(is_known, "{}: {}", memory, head.end());
        }
    }
}

#[test]
fn of_noscript_elements_256_are_looked_at() {
    for (count, metas) in [(255, 1), (256, 0), (6_000, 0)] {
        let nested = format!("<noscript>{}{META}</noscript>", "<noscript>".repeat(count));
        let head = scan(&options(), nested.as_bytes(), usize::MAX);
        assert_eq!((head.noscript_metas().len(), head.noscript_cut()), (metas, metas == 0), "{count} nested");
    }
    let side_by_side = format!("<noscript>{META}</noscript>").repeat(300);
    let head = scan(&options(), side_by_side.as_bytes(), 100);
    assert_eq!((head.noscript_metas().len(), head.noscript_cut()), (256, true));
    let head = scan(&options(), "<noscript><img></noscript>".repeat(300).as_bytes(), 100);
    assert_eq!(read_with(&options(), &[], head).noindex_known(), Some(false));
}

#[test]
fn a_content_is_cut_at_its_last_comma_within_the_limit() {
    let options = options().with_content_limit(8192).unwrap();
    for (content, rules) in [
        (format!("noindex, {}nofollow", "a, ".repeat(3000)), 1),
        (format!("noindex{}", "x".repeat(9000)), 0),
        (format!("{}noindex, nofollow", " ".repeat(8192 - 8)), 1),
        (format!("{}noindex, nofollow", " ".repeat(8192 - 7)), 0),
    ] {
        let document = format!("<meta name=robots content='{content}'><p>");
        let head = scan(&options, document.as_bytes(), usize::MAX);
        assert_eq!(&*head.metas()[0].content().to_owned(), content, "the list of metas shows all of it");
        let permissions = read_with(&options, &[], head);
        assert_eq!(permissions.rules().flags().count(), rules);
        assert!(permissions.is_truncated());
    }
}

#[test]
fn a_scanner_that_is_done_may_be_fed_and_dropped() {
    let mut scanner = HeadScanner::new(&options(), Some("text/html"));
    assert!(scanner.feed(b"<body>").is_break());
    assert!(scanner.feed(META.as_bytes()).is_break());
    assert_eq!(scanner.finish().metas().len(), 0);
    let mut scanner = HeadScanner::new(&options(), None);
    assert!(scanner.feed(b"<head><meta na").is_continue());
    drop(scanner);
}

#[test]
fn what_an_open_noscript_holds_before_a_limit_counts() {
    let document = format!("<noscript>{META}{}", " ".repeat(9000));
    let head = scan(&small(), document.as_bytes(), 1000);
    assert_eq!((head.end(), head.noscript_metas().len()), (HeadEnd::ByteLimit, 1));
    let mut scanner = HeadScanner::new(&options(), None);
    let _ = scanner.feed(format!("<noscript>{META}<meta na").as_bytes());
    assert_eq!(scanner.interrupt().noscript_metas().len(), 1);
}

#[test]
fn a_body_that_broke_off_is_told_apart_from_one_that_ended() {
    let start = || {
        let mut scanner = HeadScanner::new(&options(), None);
        let _ = scanner.feed(b"<head><meta name=robots content=nofollow><ti");
        scanner
    };
    let (ended, broken) = (start().finish(), start().interrupt());
    assert_eq!((ended.end(), broken.end()), (HeadEnd::Eof, HeadEnd::Interrupted));
    assert_eq!(ended.metas(), broken.metas());
    assert_eq!(broken.end().as_str(), "eof");
    assert_eq!(read_with(&options(), &[], ended).noindex_known(), Some(false));
    assert_eq!(read_with(&options(), &[], broken).noindex_known(), None);
    let mut scanner = HeadScanner::new(&options(), None);
    let _ = scanner.feed(b"<body>");
    assert_eq!(scanner.interrupt().end(), HeadEnd::Ended, "what broke off after the head does not matter");
}

/// Scans with this charset, in chunks of one, three and all bytes, which must not matter.
fn with_charset(charset: Option<&str>, document: &[u8]) -> Head {
    let content_type = charset.map(|charset| format!("text/html; charset={charset}"));
    let [single, few, whole] =
        [1, 3, usize::MAX].map(|size| scan_as(&options(), content_type.as_deref(), document, size));
    assert_eq!(single.metas(), whole.metas());
    assert_eq!(few.metas(), whole.metas());
    assert_eq!((single.end(), few.end()), (whole.end(), whole.end()));
    whole
}

#[test]
fn every_encoding_shows_its_metas() {
    let page =
        "<title>\u{65e5}\u{672c}\u{8a9e} \u{8868}</title><meta name=robots content='noindex, \u{8868}'>";
    let utf_16 = |bytes_of: fn(u16) -> [u8; 2], mark: bool| -> Vec<u8> {
        let mark = if mark { "\u{feff}" } else { "" };
        format!("{mark}{page}").encode_utf16().flat_map(bytes_of).collect()
    };
    let escaped = b"<!-- \x1b$BF|K\\\x1b(B -->";
    let encoded = |encoding: &'static encoding_rs::Encoding| encoding.encode(page).0.into_owned();
    for (charset, document) in [
        (None, page.as_bytes().to_vec()),
        (None, [b"\xef\xbb\xbf", page.as_bytes()].concat()),
        (Some("utf-16"), utf_16(u16::to_le_bytes, false)),
        (Some("utf-16be"), utf_16(u16::to_be_bytes, false)),
        (None, utf_16(u16::to_le_bytes, true)),
        (None, utf_16(u16::to_be_bytes, true)),
        (Some("utf-8"), utf_16(u16::to_le_bytes, true)),
        (Some("shift_jis"), encoded(encoding_rs::SHIFT_JIS)),
        (Some("gb18030"), encoded(encoding_rs::GB18030)),
        (Some("euc-jp"), encoded(encoding_rs::EUC_JP)),
        (Some("big5"), encoded(encoding_rs::BIG5)),
        (Some("iso-2022-jp"), encoded(encoding_rs::ISO_2022_JP)),
        // A mark goes before the Content-Type.
        (Some("latin1"), [b"\xef\xbb\xbf", page.as_bytes()].concat()),
        (Some("utf-8"), utf_16(u16::to_be_bytes, true)),
        // A document may declare ISO-2022-JP in its first bytes, also behind the first escape sequence, and
        // nowhere else.
        (None, [b"<meta charset=iso-2022-jp>", &*encoded(encoding_rs::ISO_2022_JP)].concat()),
        (None, [b"<?xml encoding='iso-2022-jp'?>", &*encoded(encoding_rs::ISO_2022_JP)].concat()),
        (None, [&escaped[..], b"<meta charset='ISO-2022-JP'>", &encoded(encoding_rs::ISO_2022_JP)].concat()),
        (None, [&escaped[..], page.as_bytes()].concat()),
        (None, [&escaped[..], &[b' '; 1024], b"<meta charset=iso-2022-jp>", page.as_bytes()].concat()),
        (Some("utf-8"), [b"<meta charset=iso-2022-jp>", page.as_bytes()].concat()),
    ] {
        let head = with_charset(charset, &document);
        assert_eq!(head.metas()[0].content(), "noindex, \u{8868}", "{charset:?}");
    }
}

#[test]
fn unknown_and_replaced_encodings_are_read_as_ascii() {
    for charset in
        [None, Some("utf-8"), Some("nonsense"), Some("iso-2022-kr"), Some("hz-gb-2312"), Some("replacement")]
    {
        let head =
            with_charset(charset, b"<title>\x80\xff</title><meta name=robots content='noindex, \xe9'>");
        assert_eq!(head.metas()[0].content(), "noindex, \u{fffd}", "{charset:?}");
    }
    assert_eq!(
        with_charset(Some("latin1"), b"<meta name=robots content='\xe9'>").metas()[0].content(),
        "\u{e9}"
    );
}

#[test]
fn a_byte_order_mark_alone_is_an_empty_document() {
    for mark in [&b"\xef\xbb\xbf"[..], b"\xfe\xff", b"\xff\xfe", b""] {
        let head = with_charset(None, mark);
        assert_eq!((head.end(), head.metas().len()), (HeadEnd::Eof, 0), "{mark:?}");
    }
}

#[test]
fn unknown_rules_are_bounded() {
    let names: String = (0..3000).map(|n| format!("a{n},")).collect();
    let options = options().with_field_limit(100_000).unwrap();
    let permissions = read_with(&options, &[("X-Robots-Tag", &names)], Head::default());
    assert_eq!(permissions.rules().unknown().count(), 1024);
}

/// What stands where readers do not look for it.
fn strays_of(head: &Head) -> Vec<(String, String)> {
    strays(head).map(|meta| (meta.name().to_owned(), meta.content().to_owned())).collect()
}

#[test]
fn the_whole_document_is_searched_up_to_the_limit() {
    let whole = small().with_whole_document(true);
    let head =
        format!("<title>x</title><meta name=robots content=nofollow></head><body>{}", "x".repeat(1000));
    for (body, strays) in [
        (format!("<p>x{META}"), 1),
        (format!("<noscript>{META}</noscript>"), 1),
        (format!("<svg><title>{META}</title><template></svg>{META}"), 1),
        (format!("<svg><style>{META}</style></svg>"), 1),
        (
            format!(
                "<template>{META}</template><script>'{META}'</script><!--{META}--><iframe>{META}</iframe>"
            ),
            0,
        ),
        (
            "<meta property=robots content=noindex><meta itemprop=a content=b><meta name=twitter:card>"
                .into(),
            0,
        ),
        (format!("<p>{}{META}", "x".repeat(9000)), 0),
        (format!("<noscript>{}{META}</noscript>", " ".repeat(9000)), 0),
    ] {
        let document = format!("{head}{body}");
        for size in [1, 999, usize::MAX] {
            let found = scan(&whole, document.as_bytes(), size);
            assert_eq!((found.end(), found.metas().len()), (HeadEnd::Ended, 1), "{body}");
            assert_eq!(strays_of(&found).len(), strays, "{body}");
        }
        let mut scanner = HeadScanner::new(&whole, None);
        assert!(scanner.feed(document.as_bytes()).is_continue() || document.len() > 8192, "{body}");
        assert_eq!(scanner.interrupt().end(), HeadEnd::Ended, "a body that broke off leaves the head known");
    }
}

#[test]
fn more_metas_behind_the_head_than_are_kept_are_unknown() {
    let metas =
        |count: usize| (0..count).map(|n| format!("<meta name=robots content=a{n}>")).collect::<String>();
    for (document, kept, is_complete) in [
        (format!("<body>{}{}", metas(64), "<meta name=robots content=a1>"), 64, true),
        (format!("<body>{}", metas(65)), 64, false),
        (format!("<body><noscript>{}</noscript>", metas(65)), 64, false),
    ] {
        let head = scan(&options(), document.as_bytes(), usize::MAX);
        assert_eq!(strays_of(&head).len(), kept, "{document}");
        assert_eq!(read_with(&options(), &[], head.clone()).is_complete(), is_complete, "{document}");
        let record = PermissionRecord::new(
            "https://example.org/",
            &Fetched::new(200, &[], head, SystemTime::UNIX_EPOCH),
        );
        assert_eq!(record.permissions(&options()).is_complete(), is_complete, "{document}");
    }
}

#[test]
fn what_has_come_with_the_end_of_the_head_is_searched() {
    let piece = "<p>text <b>text</b>\n".repeat(2000);
    for head in [
        "<title>x</title></head><body>",
        "<!x></head><body>",
        "<html>\u{feff}<head>",
        "<br>Notice: x<title>y</title>",
    ] {
        for (between, body) in
            [("", ""), ("<script>'", "'</script>"), (&*piece, ""), ("<iframe>", "</iframe>")]
        {
            let document = format!("{head}{between}{META}{body}");
            let expected = usize::from(body.is_empty());
            let mut scanner = HeadScanner::new(&options(), None);
            assert!(scanner.feed(document.as_bytes()).is_break(), "the head has ended in {head}");
            let found = scanner.finish();
            assert_eq!(strays_of(&found).len(), expected, "{head}{body}");
            assert_eq!((found.metas().len(), found.end()), (0, HeadEnd::Ended));
        }
    }
    let mut scanner = HeadScanner::new(&options(), None);
    assert!(scanner.feed(b"</head><body>").is_break(), "it is not waited for what follows");
    let xhtml = format!(
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><title/></head><body>{}</body></html>",
        META.replace('>', "/>")
    );
    let xhtml = xhtml.replace("name=robots content=noindex", "name='robots' content='noindex'");
    let found = scan_as(&options(), Some("application/xhtml+xml"), xhtml.as_bytes(), usize::MAX);
    assert_eq!((strays_of(&found).len(), found.end()), (1, HeadEnd::Ended));
    let found = scan_as(&options(), Some("application/xhtml+xml"), &xhtml.as_bytes()[..90], usize::MAX);
    assert_eq!(
        (strays_of(&found).len(), found.end()),
        (0, HeadEnd::Ended),
        "what is behind the head need not be XML"
    );
}

#[test]
fn what_is_in_an_encoding_that_is_not_known_is_unknown() {
    let page = "<title>x</title><meta name=robots content=noindex><p>x";
    let utf_16 =
        |bytes_of: fn(u16) -> [u8; 2]| -> Vec<u8> { page.encode_utf16().flat_map(bytes_of).collect() };
    let utf_32 = |bytes_of: fn(u32) -> [u8; 4], mark: &str| -> Vec<u8> {
        format!("{mark}{page}").chars().flat_map(|c| bytes_of(c.into())).collect()
    };
    let escaped = |before: &str| [before.as_bytes(), b"<title>\x1b$BF|K\\\x1b(B</title><p>x"].concat();
    for (charset, document, is_known) in [
        (None, utf_16(u16::to_le_bytes), false),
        (None, utf_16(u16::to_be_bytes), false),
        (Some("utf-8"), utf_16(u16::to_le_bytes), false),
        (Some("utf-16"), utf_16(u16::to_le_bytes), true),
        (None, utf_32(u32::to_le_bytes, ""), false),
        (None, utf_32(u32::to_be_bytes, ""), false),
        (None, utf_32(u32::to_le_bytes, "\u{feff}"), false),
        (None, utf_32(u32::to_be_bytes, "\u{feff}"), false),
        (Some("utf-8"), b"<title>a\0b</title><p>x".to_vec(), false),
        (Some("utf-8"), [page.as_bytes(), b"\0"].concat(), true),
        (Some("utf-8"), [b"<title>", &[b' '; 2000][..], b"\0</title><p>x"].concat(), true),
        (None, escaped(""), false),
        (None, escaped("<meta data-charset=iso-2022-jp>"), false),
        (None, escaped("<meta title='>' charset=iso-2022-jp>"), true),
        (None, escaped("<meta charset=iso-2022-kr>"), false),
        (None, escaped("<meta charset=utf-8>"), true),
        (Some("utf-8"), escaped(""), true),
        (Some("iso-2022-jp"), escaped(""), true),
        (Some("iso-2022-kr"), escaped(""), false),
        (None, escaped(&" ".repeat(2000)), false),
        (None, escaped("<p>x"), true),
    ] {
        let head = with_charset(charset, &document);
        let what = format!("{charset:?} {:?}", String::from_utf8_lossy(&document));
        assert_eq!(read_with(&options(), &[], head.clone()).is_complete(), is_known, "{what}");
        assert_eq!(head.end() == HeadEnd::UnknownCharset, !is_known, "{what}");
    }
}
