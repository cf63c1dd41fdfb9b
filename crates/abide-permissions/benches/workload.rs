//! The fields that are measured, and what others do with them and with pages.

use std::borrow::Cow;

use abide_permissions::{Head, HeadScanner, ReadOptions};
use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer};
use lol_html::html_content::Element;
use lol_html::{ElementContentHandlers, HtmlRewriter, Selector, Settings};

/// As many members of a `Robots-Tag` field, of four kinds in turn; half of them bind us.
pub(crate) fn field(members: usize) -> String {
    let members = (0..members).map(|n| match n % 4 {
        0 => "*;nosnippet".to_owned(),
        1 => format!("Other{n}Bot;noindex;max-snippet={n}"),
        2 => "ExampleBot;noindex".to_owned(),
        _ => "\"some-bot\";noindex;unavailable_after=@1735689600".to_owned(),
    });
    members.collect::<Vec<_>>().join(", ")
}

/// The fields of a response that has none of ours.
pub(crate) fn other_fields() -> [(&'static str, &'static [u8]); 3] {
    [("content-type", b"text/html"), ("cache-control", b"max-age=60"), ("etag", b"\"x\"")]
}

/// As much of a page as is needed, in pieces as they come from a socket.
pub(crate) fn scan(options: &ReadOptions, page: &[u8]) -> Head {
    let mut scanner = HeadScanner::new(options, Some("text/html; charset=utf-8"));
    for chunk in page.chunks(4096) {
        if scanner.feed(chunk).is_break() {
            break;
        }
    }
    scanner.finish()
}

/// The floor: what lol_html costs by itself when it is stopped at `<body>`, and finds robots metas by
/// selector.
pub(crate) fn floor(selectors: &[Selector; 2], page: &[u8]) -> bool {
    let mut content = None;
    let meta = |element: &mut Element<'_, '_>| {
        content = element.get_attribute("content");
        Ok(())
    };
    let body = |_: &mut Element<'_, '_>| Err("body".into());
    let [robots, stop] = selectors;
    let settings = Settings::new()
        .append_element_content_handler((
            Cow::Borrowed(robots),
            ElementContentHandlers::default().element(meta),
        ))
        .append_element_content_handler((
            Cow::Borrowed(stop),
            ElementContentHandlers::default().element(body),
        ));
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    let stopped = page.chunks(4096).any(|chunk| rewriter.write(chunk).is_err());
    drop(rewriter);
    stopped && content.is_some()
}

/// html5ever's tokenizer, without a tree: a sink that looks for metas, and switches to raw text as its tree
/// builder would.
pub(crate) fn tokenize(head: &str) -> usize {
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from(head));
    let tokenizer = Tokenizer::new(Metas(std::cell::Cell::new(0)), Default::default());
    while tokenizer.feed(&queue) != TokenizerResult::Done {}
    tokenizer.end();
    tokenizer.sink.0.get()
}

struct Metas(std::cell::Cell<usize>);

impl TokenSink for Metas {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let Token::TagToken(Tag { kind: TagKind::StartTag, name, attrs, .. }) = token else {
            return TokenSinkResult::Continue;
        };
        match &*name {
            "meta" if attrs.iter().any(|it| &*it.name.local == "name" && &*it.value == "robots") => {
                self.0.set(self.0.get() + 1);
                TokenSinkResult::Continue
            }
            "title" => TokenSinkResult::RawData(RawKind::Rcdata),
            "style" => TokenSinkResult::RawData(RawKind::Rawtext),
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            _ => TokenSinkResult::Continue,
        }
    }
}
