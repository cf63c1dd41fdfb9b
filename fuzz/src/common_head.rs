//! The tokenizer of common heads and lol_html find the same in any document.
//!
//! `<!x>` is a comment to a browser, and is for lol_html alone: behind it, lol_html reads the whole document.

use std::ops::ControlFlow;

use abide_permissions::{Head, HeadScanner, ReadOptions};

const BY_LOL_HTML: &[u8] = b"<!x>";

/// What heads are made of, and what makes them unusual. An input picks from these, one byte each.
const PIECES: [&str; 96] = [
    "<!doctype html>",
    "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0//EN\">",
    "<!-- c -->",
    "<!---->",
    "<!-->",
    "<!--->",
    "<!-- a --!>",
    "<!--",
    "-->",
    "--!>",
    "<html>",
    "<html lang=en>",
    "<head>",
    "<HEAD prefix='og: x'>",
    "</head>",
    "</head >",
    "</HEAD a='>'>",
    "<body>",
    "<body class=\"a b\">",
    "</body>",
    "</html>",
    "<p>",
    "</p>",
    "<br>",
    "</br>",
    "<div/>",
    "<x-foo>",
    "<svg>",
    "<meta name=robots content=noindex>",
    "<meta name=\"robots\" content=\"nofollow\"/>",
    "<META NAME='Bot' CONTENT='a&amp;b'>",
    "<meta content=x name=y name=z>",
    "<meta charset=utf-8>",
    "<meta property=\"og:title\" content=\"a > b\">",
    "<meta name=a content=b/>",
    "<meta name='' content=x>",
    "<meta name=\"a\"content=\"b\">",
    "<meta name = \"a\" content = 'b' >",
    "<meta name=\"a\r\nb\" content=\"\0\">",
    "<meta/name=a>",
    "<meta name=a content>",
    "<meta",
    " name=robots",
    " content='",
    "'",
    "\"",
    ">",
    "/>",
    "=",
    "<link rel=stylesheet href=/a.css>",
    "<link rel=\"icon\" href='/i?a&b'>",
    "<base href=/>",
    "<title>T &amp; t</title>",
    "<title>",
    "</title>",
    "</title x>",
    "</titlex>",
    "<title/>",
    "<style>a>b{}</style>",
    "<style>",
    "</style\n>",
    "</STYLE>",
    "<script>if (a<b) {}</script>",
    "<script src=/a.js async>",
    "</script>",
    "</script ",
    "<script>",
    "<script><!-- <script> </script> --></script>",
    "<noscript><img src=/p></noscript>",
    "<noscript><meta name=robots content=none></noscript>",
    "<noscript>",
    "</noscript>",
    "<noframes>",
    "</noframes>",
    "<template>",
    "</template>",
    "<bgsound>",
    "<basefont>",
    "<textarea>",
    "<plaintext>",
    "<frameset>",
    "<select>",
    " ",
    "\n",
    "\x0c",
    "\t",
    "a",
    "\u{e9}",
    "\u{feff}",
    "&#32;",
    "&nbsp;",
    "\0",
    "<",
    "</",
    "<!",
    "<?php ?>",
];

fn document(bytes: &[u8]) -> Vec<u8> {
    let Some((choice, rest)) = bytes.split_first() else { return Vec::new() };
    if choice % 2 == 0 {
        return rest.to_vec();
    }
    rest.iter().flat_map(|byte| PIECES[usize::from(*byte) % PIECES.len()].bytes()).collect()
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
    }
}
