//! What the first bytes of an HTML document are made of, as far as a gatekeeper's page is known by it.
//!
//! Words prove nothing: an article may quote a whole challenge page. So a marker has a place, in the head, at
//! the beginning of the body, in a heading, where a quotation does not stand, and what stands in elements
//! that quote (`pre`, `code`, `article` and the like) is passed over. This is no parser of HTML: what it does
//! not understand matches nothing.

use memchr::memchr;
use memchr::memmem::find;

/// The parts of a document that markers are about.
#[derive(Debug, Default)]
pub(super) struct Markup<'a> {
    elements: Vec<Element<'a>>,
    /// All text that is no content of `script`, `style` or `title`, character references of ASCII decoded.
    text: Vec<u8>,
    /// How much of the text there was where the first element of the body begins.
    text_before_body: usize,
    /// The body has been opened by its tag.
    has_body: bool,
    /// An element of the body was met.
    is_in_body: bool,
}

#[derive(Debug)]
struct Element<'a> {
    name: &'a [u8],
    tag: &'a [u8],
    /// Up to the next tag; of `script` and `title`, up to their end.
    content: &'a [u8],
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Head,
    /// The first element behind it.
    First,
    Body,
}

/// A part that a gatekeeper's page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    kind: MarkerKind,
    value: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkerKind {
    /// `title=`: the title of the document.
    Title,
    /// `title$=`: the end of its title.
    TitleEnd,
    /// `h1=`: a heading.
    Heading,
    /// `id=`: an element with this id.
    Id,
    /// `head-script-id=`: a script with this id in the head.
    HeadScriptId,
    /// `head-script=`: a script in the head that has this in it.
    HeadScript,
    /// `script-text=`: a script that has this in it.
    ScriptText,
    /// `script-src=`: a script whose URL begins so.
    ScriptSource,
    /// `first-iframe=`: the body begins with an iframe whose URL begins so.
    FirstIframe,
    /// `first-text=`: the body begins with this text.
    FirstText,
    /// `text=`: this stands in the text.
    Text,
}

const KINDS: [(&str, MarkerKind); 11] = [
    ("title", MarkerKind::Title),
    ("title$", MarkerKind::TitleEnd),
    ("h1", MarkerKind::Heading),
    ("id", MarkerKind::Id),
    ("head-script-id", MarkerKind::HeadScriptId),
    ("head-script", MarkerKind::HeadScript),
    ("script-text", MarkerKind::ScriptText),
    ("script-src", MarkerKind::ScriptSource),
    ("first-iframe", MarkerKind::FirstIframe),
    ("first-text", MarkerKind::FirstText),
    ("text", MarkerKind::Text),
];

impl Marker {
    /// `title=Just a moment...`
    pub(super) fn parse(text: &'static str) -> Option<Self> {
        let (name, value) = text.split_once('=')?;
        let (_, kind) = KINDS.iter().find(|(known, _)| *known == name)?;
        Some(Self { kind: *kind, value })
    }

    /// Whether the bytes of a document hold it anywhere: most documents do not, and need no further look.
    pub(super) fn may_be_in(&self, document: &[u8]) -> bool {
        // Text may be written in character references.
        matches!(self.kind, MarkerKind::Text | MarkerKind::FirstText)
            || find(document, self.value.as_bytes()).is_some()
    }

    pub(super) fn is_in(&self, markup: &Markup<'_>) -> bool {
        let value = self.value.as_bytes();
        let any = |is_it: &dyn Fn(&Element<'_>) -> bool| markup.elements.iter().any(is_it);
        let is_in_head = |element: &Element<'_>| element.place == Place::Head;
        match self.kind {
            MarkerKind::Title => markup.title() == Some(value),
            MarkerKind::TitleEnd => markup.title().is_some_and(|title| title.ends_with(value)),
            MarkerKind::Heading => any(&|element| element.is("h1") && element.content.trim_ascii() == value),
            MarkerKind::Id => any(&|element| element.has("id", |id| id == value)),
            MarkerKind::HeadScriptId => any(&|element| {
                is_in_head(element) && element.is("script") && element.has("id", |id| id == value)
            }),
            MarkerKind::HeadScript => any(&|element| is_in_head(element) && element.is_script_with(value)),
            MarkerKind::ScriptText => any(&|element| element.is_script_with(value)),
            MarkerKind::ScriptSource => {
                any(&|element| element.is("script") && element.has("src", |src| src.starts_with(value)))
            }
            MarkerKind::FirstIframe => any(&|element| {
                element.place == Place::First
                    && element.is("iframe")
                    && element.has("src", |src| src.starts_with(value))
            }),
            MarkerKind::FirstText => {
                let before = markup.text.get(..markup.text_before_body).unwrap_or(&markup.text);
                before.trim_ascii_start().starts_with(value)
            }
            MarkerKind::Text => find(&markup.text, value).is_some(),
        }
    }
}

impl<'a> Markup<'a> {
    pub(super) fn of(document: &'a [u8]) -> Self {
        let mut markup = Self::default();
        let mut rest = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document);
        while markup.elements.len() < ELEMENTS_MAX {
            let Some(start) = memchr(b'<', rest) else { break };
            let (text, tag) = rest.split_at(start);
            markup.add_text(text);
            rest = markup.take_tag(tag);
        }
        if rest.first() != Some(&b'<') {
            markup.add_text(rest);
        }
        if !markup.is_in_body {
            markup.text_before_body = markup.text.len();
        }
        markup
    }

    fn title(&self) -> Option<&[u8]> {
        let is_title = |element: &&Element<'_>| element.is("title") && element.place == Place::Head;
        self.elements.iter().find(is_title).map(|title| title.content.trim_ascii())
    }

    fn add_text(&mut self, text: &[u8]) {
        let mut rest = text;
        while let Some(at) = find(rest, b"&#") {
            let (before, reference) = rest.split_at(at);
            self.text.extend_from_slice(before);
            let digits = reference.iter().skip(2).take_while(|byte| byte.is_ascii_digit()).count();
            let number =
                reference.get(2..2_usize.saturating_add(digits)).and_then(|n| std::str::from_utf8(n).ok());
            self.text.extend(number.and_then(|number| number.parse::<u8>().ok()).filter(u8::is_ascii));
            let after = reference.get(2_usize.saturating_add(digits)..).unwrap_or_default();
            rest = after.strip_prefix(b";").unwrap_or(after);
        }
        self.text.extend_from_slice(rest);
    }

    /// Takes what begins with `<`, and returns what follows it.
    fn take_tag(&mut self, document: &'a [u8]) -> &'a [u8] {
        if document.starts_with(b"<!--") {
            return behind(document, b"-->");
        }
        let after = document.get(1..).unwrap_or_default();
        let name_len = after.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let name = after.get(..name_len).unwrap_or_default();
        let Some(tag_len) = tag_len(document) else { return &[] };
        let (tag, rest) = document.split_at(tag_len);
        if name.is_empty() {
            // An end tag, a declaration, or an instruction.
            return rest;
        }
        let is = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        let end = if is(&RAW) { end_of(rest, name) } else { memchr(b'<', rest) };
        let content = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        self.has_body |= is(&["body"]);
        if !is(&PLACELESS) {
            let place = self.place(is(&HEAD));
            self.elements.push(Element { name, tag, content, place });
        }
        if is(&RAW) {
            return rest.get(content.len()..).unwrap_or_default();
        }
        if is(&QUOTING) {
            return end_of(rest, name).and_then(|end| rest.get(end..)).unwrap_or_default();
        }
        rest
    }

    fn place(&mut self, is_of_head: bool) -> Place {
        let has_text = !self.text.trim_ascii().is_empty();
        match (self.is_in_body, is_of_head && !has_text && !self.has_body) {
            (false, true) => Place::Head,
            (true, _) => Place::Body,
            (false, false) => {
                self.is_in_body = true;
                self.text_before_body = self.text.len();
                if has_text { Place::Body } else { Place::First }
            }
        }
    }
}

impl Element<'_> {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    fn is_script_with(&self, text: &[u8]) -> bool {
        self.is("script") && find(self.content, text).is_some()
    }

    /// Whether it has an attribute of this name with such a value.
    fn has(&self, name: &str, is_it: impl Fn(&[u8]) -> bool) -> bool {
        let mut rest = self.tag.get(1_usize.saturating_add(self.name.len())..).unwrap_or_default();
        while let Some((found, value, after)) = attribute(rest) {
            if found.eq_ignore_ascii_case(name.as_bytes()) {
                return is_it(value);
            }
            rest = after;
        }
        false
    }
}

/// Content that is no markup.
const RAW: [&str; 6] = ["script", "style", "title", "textarea", "xmp", "noscript"];

/// What a head may hold.
const HEAD: [&str; 8] = ["title", "script", "style", "meta", "link", "base", "noscript", "template"];

/// Elements whose tags say nothing on where the body begins.
const PLACELESS: [&str; 4] = ["html", "head", "body", "br"];

/// Elements that hold what others have written.
const QUOTING: [&str; 8] = ["pre", "code", "samp", "kbd", "blockquote", "q", "article", "template"];

/// More than the pages of gatekeepers have before their markers.
const ELEMENTS_MAX: usize = 256;

/// The length of a tag, quoted values passed over.
fn tag_len(document: &[u8]) -> Option<usize> {
    let mut quote = None;
    for (at, &byte) in document.iter().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at.saturating_add(1)),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// The first attribute, its value, and what follows.
fn attribute(tag: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let is_between = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'/';
    let start = tag.iter().position(|byte| !is_between(byte))?;
    let tag = tag.get(start..).filter(|tag| tag.first() != Some(&b'>'))?;
    let name_len = tag.iter().position(|byte| is_between(byte) || matches!(byte, b'=' | b'>'))?;
    let (name, rest) = tag.split_at(name_len.max(1));
    let Some(value) = rest.trim_ascii_start().strip_prefix(b"=") else { return Some((name, &[], rest)) };
    let value = value.trim_ascii_start();
    if let Some((quote @ (b'"' | b'\''), value)) = value.split_first() {
        let end = value.iter().position(|byte| byte == quote)?;
        let (value, rest) = value.split_at(end);
        return Some((name, value, rest.get(1..).unwrap_or_default()));
    }
    let end = value.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'>')?;
    let (value, rest) = value.split_at(end);
    Some((name, value, rest))
}

/// Where the end tag of this name begins.
fn end_of(document: &[u8], name: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = find(document.get(from..)?, b"</") {
        let start = from.saturating_add(at);
        from = start.saturating_add(2);
        let found = document.get(from..from.saturating_add(name.len()));
        if found.is_some_and(|found| found.eq_ignore_ascii_case(name)) {
            return Some(start);
        }
    }
    None
}

/// What follows `end`; nothing if that does not come.
fn behind<'a>(document: &'a [u8], end: &[u8]) -> &'a [u8] {
    find(document, end).and_then(|at| document.get(at.saturating_add(end.len())..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_marks(document: &str, markers: &[(&'static str, bool)]) {
        let markup = Markup::of(document.as_bytes());
        for (marker, is_there) in markers {
            let marker = Marker::parse(marker).unwrap();
            assert_eq!(marker.is_in(&markup), *is_there, "{marker:?} in {markup:?}");
        }
    }

    #[test]
    fn a_marker_has_its_place() {
        assert_marks(
            "<!doctype html><HTML lang=en><head>\n<title> A &lt;b&gt; </title><!-- <script id=\"c\"> --><meta name=x content='<script id=\"d\">'>\
             <script id='a' type=x>\"1</b>\"</script></head><body><h1 class=\"x y\">Go  away</h1><script id=b src=/x/y>z</script>",
            &[
                ("title=A &lt;b&gt;", true),
                ("title$=&gt;", true),
                ("head-script-id=a", true),
                ("head-script-id=b", false),
                ("head-script-id=c", false),
                ("head-script-id=d", false),
                ("head-script=1</b>", true),
                ("head-script=z", false),
                ("script-text=z", true),
                ("script-src=/x/", true),
                ("script-src=x", false),
                ("id=b", true),
                ("h1=Go  away", true),
                ("h1=Go", false),
            ],
        );
    }

    #[test]
    fn a_body_begins_with_its_first_element_or_its_text() {
        let iframe = "first-iframe=/r?";
        assert_marks("<html><head></head><body><iframe id=x src=\"/r?1\">no</iframe>", &[(iframe, true)]);
        assert_marks("<body>text<iframe src=\"/r?1\">", &[(iframe, false), ("first-text=text", true)]);
        assert_marks("<body><p><iframe src=\"/r?1\">", &[(iframe, false)]);
        assert_marks("<title>t</title>no<br>way", &[("first-text=noway", true), ("first-text=way", false)]);
        assert_marks("<body><p>no way", &[("first-text=no", false), ("text=no way", true)]);
    }

    #[test]
    fn what_is_quoted_is_passed_over() {
        for quoting in QUOTING {
            assert_marks(
                &format!("<{quoting} class=x><h1>h</h1><b id=i>said</b><script>s</script></{quoting}><p>x"),
                &[
                    ("h1=h", false),
                    ("id=i", false),
                    ("script-text=s", false),
                    ("text=said", false),
                    ("text=x", true),
                ],
            );
        }
        assert_marks("<p>&lt;b id=i&gt; a&#46;b", &[("id=i", false), ("text=a.b", true)]);
    }

    #[test]
    fn any_bytes_are_read_to_an_end() {
        let document =
            b"<a b='c' d=e f><!-- - --><g/></g><pre><h1>&#x;&#999999;&#4\0</pre><iframe src=".as_slice();
        for end in 0..=document.len() {
            for start in 0..end {
                Markup::of(&document[start..end]);
            }
        }
    }
}
