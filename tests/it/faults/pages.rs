//! The rows of pages: header fields and heads that are wrong, endless or made to mislead.

use abide_tests::{Reply, Step, gzip};

use super::raw;

/// What a page does, and the rules noindex and nosnippet that must come of it.
pub(super) struct Fault {
    pub(super) id: &'static str,
    pub(super) name: String,
    pub(super) rules: [bool; 2],
    pub(super) reply: Reply,
    /// What the caller must read, where it is known.
    pub(super) body: Option<Vec<u8>>,
}

fn fault(
    id: &'static str,
    name: impl Into<String>,
    rules: [bool; 2],
    reply: Reply,
    body: Option<Vec<u8>>,
) -> Fault {
    Fault { id, name: name.into(), rules, reply, body }
}

const NONE: [bool; 2] = [false, false];
const NOINDEX: [bool; 2] = [true, false];
const NOSNIPPET: [bool; 2] = [false, true];
const BOTH: [bool; 2] = [true, true];

/// How one line and one head are read: `abide-permissions`, `tests/vectors/fields.tsv` and `heads.tsv`.
pub(super) fn faults() -> Vec<Fault> {
    let mut table = Vec::new();
    fields(&mut table);
    heads(&mut table);
    bombs(&mut table);
    table
}

fn fields(table: &mut Vec<Fault>) {
    let many = "OtherBot;nosnippet, ".repeat(1_000);
    let members = format!("*;noindex, {many}ExampleBot;nosnippet");
    let long = format!("*;noindex, {}", "x".repeat(100_000));
    for (id, lines, rules) in [
        ("A5", &["robots-tag:"][..], NONE),
        ("A6", &["robots-tag: ExampleBot;noindex", "robots-tag: ExampleBot;nosnippet"], BOTH),
        ("A12", &[&format!("robots-tag: {members}")], NOINDEX),
        ("A14", &[&format!("robots-tag: {long}")], NOINDEX),
        ("X7", &["robots-tag: *;nosnippet", "x-robots-tag: noindex"], BOTH),
        ("12", &["x-robots-tag: noindexfoo, nonexistent"], NONE),
        ("12", &["x-robots-tag: otherbot: noindex"], NONE),
        ("12", &["x-robots-tag: unavailable_after: 25 Jun 2099 15:00:00 PST, noindex"], NOINDEX),
        ("2", &["robots-tag: 42;noindex, (a b);noindex, ExampleBot;nosnippet"], NOSNIPPET),
        ("2", &["robots-tag: *;noindex=?0, ExampleBot;nosnippet"], NOSNIPPET),
        ("2", &["robots-tag: ExampleBotX;noindex, ExampleBot-News;noindex"], NONE),
        ("7", &["robots-tag: ,,,;;;===\"\"\"((("], NONE),
        ("7", &["robots-tag: *;noindex;a=\"unclosed", "robots-tag: *;nosnippet"], BOTH),
        ("7", &["robots-tag: *;a=:AA==:;noindex, *;b=99999999999999999999;nosnippet"], BOTH),
        ("A9", &["robots-tag: *;noindex;noindex;noindex;nosnippet"], BOTH),
    ] {
        let name: String = lines.join(" | ").chars().take(80).collect();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n{}\r\n",
            lines.iter().map(|line| format!("{line}\r\n")).collect::<String>()
        );
        table.push(fault(id, name, rules, raw(format!("{head}page")), Some(b"page".to_vec())));
    }
    let obs = b"HTTP/1.1 200 OK\r\nrobots-tag: *;noindex, \xff\xfe\xe9;nosnippet\r\n\r\npage";
    table.push(fault("7", "obs-text in a member", BOTH, raw(obs), Some(b"page".to_vec())));
    let mut lines = "robots-tag: OtherBot;noindex\r\n".repeat(80);
    lines.push_str("robots-tag: ExampleBot;nosnippet\r\n");
    let many = raw(format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n{lines}\r\npage"));
    table.push(fault("X8", "81 lines", NOSNIPPET, many, Some(b"page".to_vec())));
}

const META: &str = "<meta name=robots content=noindex>";

fn heads(table: &mut Vec<Fault>) {
    let utf16: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(META.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    for (id, name, rules, html) in [
        ("A15", "by our name", NOINDEX, b"<meta name=ExampleBot content=noindex>".to_vec()),
        ("A17", "by another name", NONE, b"<meta name=otherbot content=noindex>".to_vec()),
        ("A18", "twice", BOTH, format!("{META}<meta name=robots content=nosnippet>").into()),
        ("A20", "no opt-out", NOINDEX, format!("{META}<meta name=examplebot content=all>").into()),
        ("8", "in a script", NONE, format!("<script>'{META}'</script>").into()),
        ("8", "in noscript", NOINDEX, format!("<head><noscript>{META}</noscript>").into()),
        (
            "8",
            "upper case, quotes, references",
            NOINDEX,
            b"<META NAME='rob&#111;ts' CONTENT=\"no&#x69;ndex\">".to_vec(),
        ),
        ("8", "the first of two names", NONE, b"<meta name=x name=robots content=noindex>".to_vec()),
        ("8", "NUL in the name", NONE, b"<meta name=ro\0bots content=noindex>".to_vec()),
        ("8", "UTF-16", NOINDEX, utf16),
        (
            "8",
            "invalid UTF-8 before",
            NOINDEX,
            [b"<title>\xff\xfe\xe9</title>".as_slice(), META.as_bytes()].concat(),
        ),
        ("8", "nothing but an open bracket", NONE, b"<".to_vec()),
    ] {
        table.push(fault(id, name, rules, Reply::html(html.clone()), Some(html)));
    }
}

fn bombs(table: &mut Vec<Fault>) {
    let mut bomb = |name: &str, rules, first: String, piece: &str, times: usize| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n{first}");
        let piece = piece.repeat(65_536 / piece.len());
        let steps = vec![Step::send(head), Step::Repeat(piece.into(), times)];
        table.push(fault("A35", name, rules, Reply::raw(steps), None));
    };
    bomb("a head without end", NOINDEX, META.into(), "<link rel=x href=y>\n", 200);
    bomb("a comment without end", NOINDEX, format!("{META}<!--"), "x", 200);
    bomb("an attribute without end", NOINDEX, format!("{META}<link x=\""), "y", 200);
    bomb("attributes without end", NOINDEX, format!("{META}<link "), "a b=c ", 200);
    bomb("a tag name without end", NOINDEX, format!("{META}<"), "a", 200);
    bomb("a style without end", NOINDEX, format!("{META}<style>"), "a{}", 200);
    bomb("templates without end", NOINDEX, META.into(), "<template>", 200);
    bomb("open brackets", NOINDEX, META.into(), "<", 200);
    bomb("references without end", NOINDEX, format!("{META}<title>"), "&NotEqualTilde;", 200);
    bomb("metas without end", NOINDEX, META.into(), "<meta name=a content=b>", 200);
    bomb("meta and a content without end", NONE, "<meta name=robots content=\"".into(), "noindex,", 200);
    bomb("end tags", NONE, "</x>".into(), "</br>", 200);
    bomb("nested elements of the body", NOINDEX, META.into(), "<div>", 200);
    bomb("white space", NONE, " ".into(), " ", 200);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n";
    for (name, fields, body) in [
        ("a charset as the coding", "content-encoding: utf-8\r\n", META.as_bytes().to_vec()),
        ("no coding by name", "content-encoding: none\r\n", META.into()),
        (
            "gzip beside a word that names no coding",
            "content-encoding: aws-chunked,gzip\r\n",
            gzip(META.as_bytes()),
        ),
        (
            "gzip with zeros behind it",
            "content-encoding: gzip\r\n",
            [gzip(META.as_bytes()), vec![0; 64]].concat(),
        ),
        ("the transfer coding identity", "transfer-encoding: identity\r\n", META.into()),
        ("a folded field", "content-security-policy: a\r\n\t b\r\n", META.into()),
        ("a space before the colon", "x-thing : 1\r\n", META.into()),
        ("a bad line in the head", "PHP Warning:  Unable to load\r\n", META.into()),
    ] {
        let reply = raw([format!("{head}{fields}\r\n").as_bytes(), &body].concat());
        table.push(fault("13", name, NOINDEX, reply, Some(META.into())));
    }
    for field in ["x-robots-tag : noindex", "x-robots-tag:\r\n noindex"] {
        let reply = raw(format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n{field}\r\n\r\npage"));
        table.push(fault("13", field.escape_debug().to_string(), NOINDEX, reply, Some(b"page".to_vec())));
    }
    let cut = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4000\r\n\r\n{META}");
    table.push(fault("9", "a page that is cut", NOINDEX, raw(cut), None));
    for (name, kind, rules) in [
        ("a PDF", "application/pdf", NONE),
        ("an image", "image/png", NONE),
        ("no type", "nonsense", NOINDEX),
        ("several types", "text/html, text/html", NOINDEX),
        ("a type with a space", "text/html charset=utf-8", NOINDEX),
    ] {
        let reply = Reply::with_headers(200, &[("content-type", kind)], META);
        table.push(fault("9", name, rules, reply, Some(META.into())));
    }
}
