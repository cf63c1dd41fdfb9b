//! Any document is scanned: what is found does not depend on how its bytes are split, a part of it states
//! nothing that the whole does not, a scan of the whole document finds every meta that the scan of the head
//! does, and memory stays within its limit.

use std::time::SystemTime;

use abide_permissions::testing::strays;
use abide_permissions::{Head, HeadEnd, HeadScanner, Permissions, ReadOptions};

const TYPES: [Option<&str>; 5] = [
    None,
    Some("text/html"),
    Some("text/html; charset=utf-16"),
    Some("application/xhtml+xml; charset=iso-2022-jp"),
    Some("application/xml"),
];

/// The least that may be set.
const HEAD: usize = 8 * 1024;
const MEMORY: usize = 16 * 1024;
/// What is kept of a noscript until it ends.
const NOSCRIPT: usize = 64 * 1024;

fn feed(options: &ReadOptions, content_type: Option<&str>, document: &[u8], size: usize) -> HeadScanner {
    let mut scanner = HeadScanner::new(options, content_type);
    for chunk in document.chunks(size) {
        if scanner.feed(chunk).is_break() {
            break;
        }
    }
    scanner
}

fn scan(options: &ReadOptions, content_type: Option<&str>, document: &[u8], size: usize) -> Head {
    feed(options, content_type, document, size).finish()
}

/// What the first lines of this file say.
pub fn run(bytes: &[u8]) {
    let Some((&choice, document)) = bytes.split_first() else { return };
    let content_type = TYPES[usize::from(choice) % TYPES.len()];
    let size = usize::from(choice) / TYPES.len() + 1;
    let options =
        ReadOptions::new("ExampleBot".parse().expect("a token")).with_head_limit(HEAD).expect("the least");

    let whole = scan(&options, content_type, document, usize::MAX);
    let split = scan(&options, content_type, document, size);
    assert_eq!(whole.metas(), split.metas());
    assert_eq!(whole.noscript_metas(), split.noscript_metas());
    assert_same_end(whole.end(), split.end());
    assert!(whole.metas().iter().all(|meta| !meta.name().is_empty()));
    assert!(whole.bytes() <= HEAD);

    let tight = options.clone().with_memory_limit(MEMORY).expect("the least");
    let _ = scan(&tight, content_type, document, size);
    if crate::one_in(32, bytes) {
        long(&tight, content_type, document, size);
    }
    prefixes(&options, document, usize::from(choice));

    known(&options, &whole);
    behind_the_head(&options, content_type, document, size, &whole);
    let everywhere = scan(&options.with_body_metas(true), content_type, document, size);
    if is_xml(content_type) {
        // What is not well-formed is read in two ways, one behind the other.
        let has = |meta| everywhere.metas().contains(meta);
        assert!(whole.metas().iter().all(has), "the head is part of the document");
        return;
    }
    let mut found = everywhere.metas().iter();
    assert!(
        whole.metas().iter().all(|meta| found.any(|other| other == meta)),
        "the head is part of the document"
    );
}

/// The scan of the whole document has the same head, finds at least what is at hand, and does not depend on
/// how the bytes are split.
fn behind_the_head(
    options: &ReadOptions,
    content_type: Option<&str>,
    document: &[u8],
    size: usize,
    head: &Head,
) {
    let options = options.clone().with_whole_document(true);
    let [whole, split] = [usize::MAX, size].map(|size| scan(&options, content_type, document, size));
    assert_eq!((whole.metas(), whole.noscript_metas()), (head.metas(), head.noscript_metas()));
    assert_same_end(whole.end(), head.end());
    assert_same_end(split.end(), head.end());
    assert_eq!(split.metas(), whole.metas());
    let found: Vec<_> = strays(&whole).collect();
    assert_eq!(strays(&split).collect::<Vec<_>>(), found);
    assert!(strays(head).all(|stray| found.contains(&stray)));
}

/// lol_html shows text late, so a zero in the tag behind it may seem to be in the head.
fn assert_same_end(a: HeadEnd, b: HeadEnd) {
    let may_be_seen_late = |end| matches!(end, HeadEnd::Ended | HeadEnd::UnknownCharset);
    assert!(a == b || may_be_seen_late(a) && may_be_seen_late(b), "{a:?}, {b:?}");
}

fn is_xml(content_type: Option<&str>) -> bool {
    content_type.is_some_and(|content_type| content_type.contains("xml"))
}

/// Nothing is permitted by a head that was not read to its end, and a part of a document is never read to its
/// end.
fn known(options: &ReadOptions, head: &Head) {
    let read = |head: Head| Permissions::read(options, [], head, SystemTime::UNIX_EPOCH);
    let permissions = read(head.clone());
    assert_eq!(permissions.is_read(), head.end().is_complete() && !permissions.is_truncated());
    assert!(permissions.is_read() || !(permissions.may_index() || permissions.may_follow()));
    assert_eq!(permissions.is_complete(), permissions.unknown_because().is_empty());
    assert!(!read(head.clone().of_part()).may_index());
}

/// The document again and again.
fn long(tight: &ReadOptions, content_type: Option<&str>, document: &[u8], size: usize) {
    const LENGTH: usize = 128 * 1024;
    let options = tight.clone().with_head_limit(LENGTH).expect("more than the least");
    let long: Vec<u8> = document.iter().copied().cycle().take(LENGTH).collect();
    let mut found: usize = 0;
    let used = allocation_counter::measure(|| {
        let head = scan(&options, content_type, &long, size);
        let metas = head.metas().iter().chain(head.noscript_metas());
        found = metas.map(|meta| 2 * size_of_val(meta) + meta.name().len() + meta.content().len()).sum();
    });
    // Open elements of XML, and attributes of one, each of which costs more than it is long.
    let open = if is_xml(content_type) { 4 * LENGTH } else { 0 };
    // Both scans, what an open noscript holds while its buffer grows, and what was found.
    let most = 2 * MEMORY + 3 * NOSCRIPT + 2 * found + 16 * 1024 + open;
    assert!(used.bytes_max <= most as u64, "memory: {used:?}, {most}");
}

/// Cuts the document at two places, once as if it ended there and once as if it broke off. Its encoding is
/// given, since otherwise what decides on it may be what was cut.
fn prefixes(options: &ReadOptions, document: &[u8], choice: usize) {
    let content_type = Some("text/html; charset=utf-8");
    let whole = scan(options, content_type, document, usize::MAX);
    let behind_a_tag = document.iter().rposition(|byte| *byte == b'>').map_or(0, |at| at + 1);
    let ended = scan(options, content_type, &document[..document.len() * choice / 255], usize::MAX);
    let broken = feed(options, content_type, &document[..behind_a_tag], usize::MAX).interrupt();
    let read = |head: Head| Permissions::read(options, [], head, SystemTime::UNIX_EPOCH).rules().clone();
    let rules = read(whole.clone());
    for part in [ended, broken] {
        assert!(whole.metas().starts_with(part.metas()), "a part has the first of the metas");
        assert!(whole.noscript_metas().starts_with(part.noscript_metas()));
        assert_eq!(read(part).union(&rules), rules, "a part states nothing that the whole does not");
    }
}
