//! The tokenizer of common heads and lol_html find the same in any document.
//!
//! `<!x>` is a comment to a browser, and is for lol_html alone: behind it, lol_html reads the whole document.

use std::ops::ControlFlow;
use std::sync::LazyLock;

use abide_permissions::testing::strays;
use abide_permissions::{Head, HeadEnd, HeadScanner, ReadOptions, licenses};

const BY_LOL_HTML: &[u8] = b"<!x>";
/// As long, so that what decides on the encoding is at the same place.
const BLANKS: &[u8] = b"    ";

/// What heads are made of, and what makes them unusual. An input picks from these, one byte each.
static PIECES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| crate::list(include_str!("common_head.txt")));

fn document(bytes: &[u8]) -> Vec<u8> {
    let Some((choice, rest)) = bytes.split_first() else { return Vec::new() };
    if choice % 2 == 0 {
        return rest.to_vec();
    }
    rest.iter().flat_map(|byte| &PIECES[usize::from(*byte) % PIECES.len()]).copied().collect()
}

fn scan(pieces: &[&[u8]]) -> Head {
    let options = ReadOptions::new("ExampleBot".parse().expect("a token"));
    let mut scanner = HeadScanner::new(&options, Some("text/html; charset=utf-8"));
    for piece in pieces {
        if scanner.feed(piece) == ControlFlow::Break(()) {
            break;
        }
    }
    scanner.finish()
}

/// What the first lines of this file say.
pub fn run(bytes: &[u8]) {
    let document = document(bytes);
    // Behind `<!x>` these are text; before all others they say how the document is encoded.
    if [&b"\xef\xbb\xbf"[..], b"\xff\xfe", b"\xfe\xff"].iter().any(|mark| document.starts_with(mark)) {
        return;
    }
    let expected = scan(&[&[BY_LOL_HTML, &document].concat()]);
    let at = document.len() * bytes.len() % (document.len() + 1);
    let (first, last) = document.split_at(at);
    assert_eq!(
        strays(&scan(&[&[BLANKS, &document].concat()])).collect::<Vec<_>>(),
        strays(&expected).collect::<Vec<_>>()
    );
    // lol_html shows text late, so a zero in the tag behind it may seem to be in the head.
    let end = |head: &Head| if head.end() == HeadEnd::UnknownCharset { HeadEnd::Ended } else { head.end() };
    for found in [scan(&[&[BLANKS, &document].concat()]), scan(&[BLANKS, first, last])] {
        assert_eq!(found.metas(), expected.metas());
        assert_eq!(found.noscript_metas(), expected.noscript_metas());
        assert_eq!(end(&found), end(&expected));
        assert_eq!(found.noscript_cut(), expected.noscript_cut());
        // What has come with the end of the head is searched, and both are given all of it.
        assert!(strays(&found).all(|stray| strays(&expected).any(|other| other == stray)));
        assert_eq!(licenses(None, [], Some(&found)), licenses(None, [], Some(&expected)));
    }
}
