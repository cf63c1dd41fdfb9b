//! The tokenizer of common heads and lol_html find the same in any document.
//!
//! `<!x>` is a comment to a browser, and is for lol_html alone: behind it, lol_html reads the whole document.

use std::ops::ControlFlow;
use std::sync::LazyLock;

use abide_permissions::{Head, HeadScanner, ReadOptions, licenses};

const BY_LOL_HTML: &[u8] = b"<!x>";

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
    let expected = scan(&[BY_LOL_HTML, &document]);
    let at = document.len() * bytes.len() % (document.len() + 1);
    let (first, last) = document.split_at(at);
    for found in [scan(&[&document]), scan(&[first, last])] {
        assert_eq!(found.metas(), expected.metas());
        assert_eq!(found.noscript_metas(), expected.noscript_metas());
        assert_eq!(found.end(), expected.end());
        assert_eq!(found.noscript_cut(), expected.noscript_cut());
        assert_eq!(licenses(None, [], Some(&found)), licenses(None, [], Some(&expected)));
    }
}
