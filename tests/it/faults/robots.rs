//! The rows of `/robots.txt`: connections, heads, lengths, codings, statuses, redirects, addresses, contents.

use std::sync::Arc;
use std::time::Duration;

use abide::Failure;
use abide_tests::{CODINGS, OWN_ADDRESSES, Reply, Seen, Step, gzip};

use super::Expect::{AllowAll, Deferred, Rules, TooSlow, Unreachable};
use super::{Also, Expect, Fault, GOOD, MARKER, raw};

/// What a fault must not make us believe.
const TRAP: &str = "User-agent: *\nAllow: /\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n";

struct Table(Vec<Fault>);

impl Table {
    fn add(&mut self, id: &'static str, name: impl Into<String>, expect: Expect, reply: Reply) -> &mut Self {
        self.play(id, name, expect, move |_| reply.clone());
        self
    }

    fn play(
        &mut self,
        id: &'static str,
        name: impl Into<String>,
        expect: Expect,
        script: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) {
        self.0.push(Fault {
            id,
            name: name.into(),
            expect,
            script: Arc::new(script),
            is_slow: matches!(id, "C10" | "C11"),
            asked: 1,
            also: Also::Nothing,
        });
    }

    fn redirect(&mut self, id: &'static str, name: impl Into<String>, reply: Reply) {
        self.play(id, name, Rules, move |seen| match seen.path.as_str() {
            "/robots.txt" => reply.clone(),
            _ => Reply::new(200, GOOD),
        });
    }

    /// What else must be known of the last row.
    fn also(&mut self, also: Also) {
        if let Some(last) = self.0.last_mut() {
            last.also = also;
        }
    }
}

/// All of them. A listener at `silent` must get no connection.
pub(super) fn faults(silent: u16) -> Vec<Fault> {
    let mut table = Table(Vec::new());
    connections(&mut table);
    slowness(&mut table);
    lengths(&mut table);
    heads(&mut table);
    codings(&mut table);
    members(&mut table);
    statuses(&mut table);
    redirects(&mut table);
    refused_redirects(&mut table);
    addresses(&mut table, silent);
    fields(&mut table);
    contents(&mut table);
    table.0
}

fn connections(table: &mut Table) {
    for (name, bytes) in [
        ("closed at once", ""),
        ("cut in the status line", "HTTP/1.1 2"),
        ("cut behind the status line", "HTTP/1.1 200 OK\r\n"),
        ("cut in a field name", "HTTP/1.1 200 OK\r\nconte"),
        ("cut in the head", OK),
    ] {
        table.add("C5", name, Unreachable, raw(bytes));
    }
    table.add("C5", "reset at once", Unreachable, Reply::raw(vec![Step::Reset]));
    table.add("C5", "reset in the head", Unreachable, Reply::raw(vec![Step::send(OK), Step::Reset]));
    for (name, bytes) in [
        ("an SSH banner", "SSH-2.0-OpenSSH_9.2\r\n"),
        ("a mail server", "220 mail.example ESMTP\r\n"),
        ("HTTP/0.9", TRAP),
        ("a two-digit status", "HTTP/1.1 20 OK\r\ncontent-length: 0\r\n\r\n"),
        ("a four-digit status", "HTTP/1.1 2000 OK\r\ncontent-length: 0\r\n\r\n"),
        ("a negative status", "HTTP/1.1 -200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("another version", "HTTP/9.9 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("TLS where none was asked for", "\x16\x03\x01\x02"),
        ("HTTP/2 where none was asked for", "\0\0\0\x04\0\0\0\0\0"),
    ] {
        table.add("C14", name, Unreachable, raw(bytes));
    }
}

fn slowness(table: &mut Table) {
    table.add("C10", "never answers", Unreachable, Reply::raw(vec![Step::Hang]));
    let stall = vec![Step::send(OK), Step::Hang];
    table.add("C10", "stalls in the head", Unreachable, Reply::raw(stall));
    let head = format!("{OK}content-length: 500\r\n\r\n{TRAP}");
    table.add("C10", "stalls in the body", Unreachable, Reply::raw(vec![Step::send(head), Step::Hang]));
    let mut drip = vec![Step::send(format!("{OK}\r\n{TRAP}"))];
    drip.extend((0..60).flat_map(|_| [Step::Sleep(Duration::from_millis(500)), Step::send(b"#")]));
    table.add("C10", "drips", Unreachable, Reply::raw(drip));
    table.play("C10", "slow redirects", Unreachable, |seen| match seen.path.as_str() {
        "/r5" => Reply::new(200, TRAP),
        _ => next_hop(seen).after(Duration::from_millis(1_500)),
    });
    let hints = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".to_vec();
    let mut steps = Vec::new();
    for _ in 0..200 {
        steps.extend([Step::Send(hints.clone()), Step::Sleep(Duration::from_millis(100))]);
    }
    table.add("C11", "103 for ever", Unreachable, Reply::raw(steps));
}

fn lengths(table: &mut Table) {
    let text = |fields: &str, body: &str| raw(format!("{OK}{fields}\r\n{body}"));
    let chunked = "transfer-encoding: chunked\r\n";
    for (id, name, reply) in [
        ("C6", "shorter than stated", text("content-length: 500\r\n", TRAP)),
        ("C6", "chunks cut", text(chunked, &format!("17\r\n{TRAP}\r\n"))),
        ("C6", "cut within a chunk", text(chunked, &format!("ff\r\n{TRAP}"))),
        ("C6", "a bad chunk size", text(chunked, &format!("17\r\n{TRAP}\r\nzz\r\n"))),
        ("C6", "a negative chunk size", text(chunked, &format!("-17\r\n{TRAP}\r\n0\r\n\r\n"))),
        ("C6", "a huge chunk size", text(chunked, &format!("ffffffffffffffff\r\n{TRAP}"))),
        (
            "C6",
            "a chunk size with too many digits",
            text(chunked, &format!("{}17\r\n{TRAP}", "0".repeat(9_000))),
        ),
        ("C6", "no line end behind a chunk", text(chunked, &format!("17\r\n{TRAP}0\r\n\r\n"))),
        ("C8", "two lengths", text("content-length: 23\r\ncontent-length: 25\r\n", TRAP)),
        ("C8", "a negative length", text("content-length: -1\r\n", TRAP)),
        ("C8", "a length of 2^63", text("content-length: 9223372036854775808\r\n", TRAP)),
        ("C8", "a length of 2^64", text("content-length: 18446744073709551616\r\n", TRAP)),
        ("C8", "a length in words", text("content-length: many\r\n", TRAP)),
        ("C8", "a length beside chunks", text(&format!("content-length: 23\r\n{chunked}"), TRAP)),
        ("C17", "an unknown transfer coding", text("transfer-encoding: x-own\r\n", TRAP)),
        (
            "C17",
            "a transfer coding below the chunks",
            text("transfer-encoding: gzip, chunked\r\n", &format!("17\r\n{TRAP}\r\n0\r\n\r\n")),
        ),
    ] {
        table.add(id, name, Unreachable, reply);
        if id == "C17" {
            table.also(Also::Cause(Failure::TransferCoding));
        }
    }
    for (name, value) in
        [("identity", "identity"), ("Identity", "Identity"), ("identity, twice", "identity, identity")]
    {
        let field = format!("transfer-encoding: {value}\r\n");
        table.add("C17", format!("the transfer coding {name}"), Rules, text(&field, GOOD));
    }
    let body = format!("{:x}\r\n{GOOD}\r\n0\r\n\r\n", GOOD.len());
    let field = "transfer-encoding: identity, chunked\r\n";
    table.add("C17", "the transfer coding identity below the chunks", Rules, text(field, &body));
    let reset = vec![
        Step::send(format!("{OK}content-length: 500\r\n\r\n{TRAP}")),
        Step::Sleep(Duration::from_millis(20)),
        Step::Reset,
    ];
    table.add("C6", "reset in the body", Unreachable, Reply::raw(reset));
    let length = format!("content-length: {}\r\n", GOOD.len());
    table.add("C7", "longer than stated", Rules, text(&length, &format!("{GOOD}Allow: /closed\n")));
    let second = format!("{GOOD}HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{TRAP}", TRAP.len());
    table.add("C7", "an answer after the answer", Rules, text(&length, &second));
    let whole = format!("{:x}\r\n{GOOD}\r\n0\r\nx-trailer: y\r\n\r\n", GOOD.len());
    table.add(
        "C6",
        "chunks with an extension and trailers",
        Rules,
        text(chunked, &whole.replacen("\r\n", ";a=b\r\n", 1)),
    );
    table.add("C6", "no length and closed", Rules, text("", GOOD));

    let rest = vec![b'#'; 64 * 1024];
    let endless = |head: &str, piece: Vec<u8>| {
        Reply::raw(vec![Step::send(format!("{OK}{head}")), Step::Repeat(piece, 16_384)])
    };
    table.add("C9", "an endless line", Rules, endless(&format!("\r\n{GOOD}"), rest.clone()));
    table.add("C9", "endless lines", Rules, endless(&format!("\r\n{GOOD}"), b"Allow: /x\n".repeat(6_000)));
    let chunk = [b"10000\r\n".as_slice(), &rest, b"\r\n"].concat();
    let first = format!("{chunked}\r\n{:x}\r\n{GOOD}\r\n", GOOD.len());
    table.add("C9", "endless chunks", Rules, endless(&first, chunk));
    let stated = format!("content-length: 100000000\r\n\r\n{GOOD}");
    table.add("C9", "100 MB", Rules, endless(&stated, rest));
}

fn heads(table: &mut Table) {
    let start = b"HTTP/1.1 200 OK\r\n".to_vec();
    let end = format!("\r\n{TRAP}").into_bytes();
    for (name, first, field, times) in [
        ("a field of 1 MB", &b""[..], [b"x: ".as_slice(), &[b'y'; 1_000_000], b"\r\n"].concat(), 1),
        ("1,000 fields", b"", b"x: y\r\n".to_vec(), 1_000),
        ("an endless field", b"x: ", b"yyyyyyyyyyyyyyyy".repeat(4_096), 1_000),
        ("endless fields", b"", b"x: y\r\n".repeat(10_000), 1_000),
        ("an endless status line", b"", b"OK ".repeat(20_000), 1_000),
    ] {
        let steps = vec![
            Step::Send([start.as_slice(), first].concat()),
            Step::Repeat(field, times),
            Step::Send(end.clone()),
        ];
        table.add("C12", name, Unreachable, Reply::raw(steps));
    }
    let beside = |field: &[u8]| {
        let end = format!("content-length: {}\r\n\r\n{GOOD}", GOOD.len());
        raw([b"HTTP/1.1 200 OK\r\n".as_slice(), field, end.as_bytes()].concat())
    };
    for (name, field) in [
        ("a control byte in a field", &b"x: a\x01b\r\n"[..]),
        ("DEL in a field", b"x: a\x7fb\r\n"),
        ("no colon", b"nonsense\r\n"),
        ("a bad field name", b"a b: c\r\n"),
        ("an empty field name", b": c\r\n"),
        ("a warning of a script", b"PHP Warning:  Unable to load\r\n"),
        ("a folded field", b"x: a\r\n b\r\n\tc\r\n"),
        ("a folded field that looks like another", b"x: a\r\n content-encoding: x-unknown\r\n"),
        ("a space before the colon", b"x : y\r\n"),
        ("many bad lines", &b"nonsense\r\n".repeat(50)),
    ] {
        table.add("C13", name, Rules, beside(field));
    }
    for (name, field) in [
        // These end a text, or a line, for one reader and not for another.
        ("NUL in a field", &b"x: a\0b\r\n"[..]),
        ("a lone CR in the head", b"x: a\rb: c\r\n"),
        ("a folded length that is another", b"content-length:\r\n 500\r\n"),
        ("a coding before a space", b"content-encoding : x-unknown\r\n"),
        ("a folded coding", b"content-encoding:\r\n x-unknown\r\n"),
    ] {
        table.add("C13", name, Unreachable, beside(field));
    }
    let good = format!("HTTP/1.1 200 OK\r\nx: \u{e9}\u{ff}\r\ncontent-length: {}\r\n\r\n{GOOD}", GOOD.len());
    table.add("C13", "obs-text in a field", Rules, raw(good));
    table.add(
        "C13",
        "line feeds alone",
        Rules,
        raw(format!("HTTP/1.1 200 OK\ncontent-length: {}\n\n{GOOD}", GOOD.len())),
    );
    table.add(
        "C13",
        "no reason phrase",
        Rules,
        raw(format!("HTTP/1.1 200\r\ncontent-length: {}\r\n\r\n{GOOD}", GOOD.len())),
    );
}

fn codings(table: &mut Table) {
    let [_, (_, zlib), ..] = CODINGS;
    let coded = |codings: &[&str], body: Vec<u8>| {
        let fields: Vec<_> = codings.iter().map(|coding| ("content-encoding", *coding)).collect();
        Reply::with_headers(200, &fields, body)
    };
    let trap = TRAP.as_bytes();
    let corrupt = |place: usize| {
        let mut bytes = gzip(trap);
        let at = bytes.len() - place;
        bytes[at] ^= 0x10;
        bytes
    };
    for (id, name, reply) in [
        (
            "C16",
            "gzip without half of its trailer",
            coded(&["gzip"], gzip(trap)[..gzip(trap).len() - 4].to_vec()),
        ),
        (
            "C16",
            "gzip without the end of its text",
            coded(&["gzip"], gzip(trap)[..gzip(trap).len() - 9].to_vec()),
        ),
        ("C16", "gzip with a wrong checksum", coded(&["gzip"], corrupt(6))),
        ("C16", "gzip with a wrong length", coded(&["gzip"], corrupt(2))),
        ("C16", "gzip corrupt", coded(&["gzip"], corrupt(14))),
        ("C17", "an unknown coding", coded(&["x-unknown"], trap.to_vec())),
        ("C17", "compress, which was not asked for", coded(&["compress"], trap.to_vec())),
        ("C17", "an empty coding's neighbour", coded(&["gzip, x-unknown"], gzip(trap))),
        ("C17", "gzip fifty times", coded(&["gzip"; 50], (0..50).fold(trap.to_vec(), |body, _| gzip(&body)))),
        (
            "C17",
            "a word that names none beside an unknown coding",
            coded(&["utf-8, x-unknown"], trap.to_vec()),
        ),
        ("C17", "gzip under a word that names no coding", coded(&["none"], gzip(trap))),
        (
            "C16",
            "deflate without its frame, cut",
            coded(&["deflate"], zlib(trap)[2..zlib(trap).len() - 6].to_vec()),
        ),
        ("C17", "zstd bytes without a name", Reply::new(200, [0x28, 0xb5, 0x2f, 0xfd, 0, 0])),
    ] {
        table.add(id, name, Unreachable, reply);
    }
    let good = GOOD.as_bytes();
    for word in [
        "identity",
        "none",
        "utf-8",
        "UTF-8",
        "us-ascii",
        "iso-8859-1",
        "7bit",
        "8bit",
        "binary",
        "aws-chunked",
        "text/plain",
    ] {
        table.add("C17", word, Rules, coded(&[word], GOOD.into()));
        table.add("C17", format!("gzip and {word}"), Rules, coded(&[&format!("gzip, {word}")], gzip(good)));
        table.add("C17", format!("{word} and gzip"), Rules, coded(&[word, "gzip"], gzip(good)));
    }
    let bare = zlib(good)[2..zlib(good).len() - 4].to_vec();
    table.add("C17", "deflate without its frame", Rules, coded(&["deflate"], bare));
    let without_trailer = gzip(good)[..gzip(good).len() - 8].to_vec();
    table.add(
        "C16",
        "gzip without its trailer, of the stated length",
        Rules,
        coded(&["gzip"], without_trailer.clone()),
    );
    let until_closed = [format!("{OK}content-encoding: gzip\r\n\r\n").as_bytes(), &without_trailer].concat();
    table.add("C16", "gzip without its trailer, until it is closed", Unreachable, raw(until_closed));
    // A text as long as texts are, and one that says nothing else.
    let long = format!("{TRAP}{}", "Allow: /some/path/or/other # and why it is allowed\n".repeat(40));
    for (coding, code) in CODINGS {
        table.add("C16", coding, Rules, coded(&[coding], code(GOOD.as_bytes())));
        for trap in [trap, long.as_bytes()] {
            let (bytes, twice) = (code(trap), code(&code(trap)));
            let cut = bytes[..bytes.len() * 2 / 3].to_vec();
            for (id, name, reply) in [
                ("C16", "cut", coded(&[coding], cut)),
                ("C16", "named, but plain", coded(&[coding], trap.to_vec())),
                ("C17", "without a name", Reply::new(200, bytes)),
                ("C17", "twice", coded(&[coding, coding], twice.clone())),
                ("C17", "twice in one field", coded(&[&format!("{coding}, {coding}")], twice.clone())),
                ("C17", "twice, named once", coded(&[coding], twice)),
                ("C17", "within gzip, named gzip", coded(&["gzip"], gzip(&code(trap)))),
                ("C17", "around gzip, named twice", coded(&[coding, "gzip"], code(&gzip(trap)))),
            ] {
                table.add(id, format!("{coding} {name}, {} bytes", trap.len()), Unreachable, reply);
                if name == "without a name" {
                    table.also(Also::Cause(Failure::StillCoded));
                }
            }
        }
        let mut bomb = GOOD.as_bytes().to_vec();
        bomb.resize(if coding == "gzip" { 256 } else { 32 } * 1024 * 1024, b'#');
        table.add("C15", format!("a bomb in {coding}"), Rules, coded(&[coding], code(&bomb)));
    }
}

/// RFC 1952 and RFC 8878 let several members stand one behind the other; what is left over otherwise is no
/// part of a text.
fn members(table: &mut Table) {
    let [.., (_, zstd)] = CODINGS;
    let (first, rest) = GOOD.as_bytes().split_at("User-agent: *\n".len());
    let (good, trap) = (GOOD.as_bytes(), TRAP.as_bytes());
    let cut = |mut bytes: Vec<u8>| {
        bytes.truncate(bytes.len() - 3);
        bytes
    };
    let wrong_crc = |mut bytes: Vec<u8>| {
        let at = bytes.len() - 6;
        bytes[at] ^= 1;
        bytes
    };
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"any"].concat();
    let mut rows: Vec<(&str, &str, Expect, Vec<u8>)> = vec![
        ("gzip", "of two members", Rules, [gzip(first), gzip(rest)].concat()),
        ("gzip", "of nothing and of rules", Rules, [gzip(b""), gzip(good)].concat()),
        ("gzip", "of rules and of nothing", Rules, [gzip(good), gzip(b"")].concat()),
        ("gzip", "of a member for each byte", Rules, good.iter().flat_map(|byte| gzip(&[*byte])).collect()),
        ("gzip", "with a cut second member", Unreachable, [gzip(trap), cut(gzip(rest))].concat()),
        ("gzip", "with the first byte of a second member", Unreachable, [gzip(trap), vec![0x1f]].concat()),
        (
            "gzip",
            "with a wrong checksum in the first member",
            Unreachable,
            [wrong_crc(gzip(trap)), gzip(rest)].concat(),
        ),
        (
            "gzip",
            "with a wrong checksum in the second member",
            Unreachable,
            [gzip(trap), wrong_crc(gzip(rest))].concat(),
        ),
        ("gzip", "of nothing, with plain rules behind it", Unreachable, [&gzip(b"")[..], good].concat()),
        (
            "gzip",
            "of two members, with zeros between",
            Rules,
            [&gzip(first)[..], &[0; 9], &gzip(rest)].concat(),
        ),
        ("zstd", "of two frames", Rules, [zstd(first), zstd(rest)].concat()),
        ("zstd", "of nothing and of rules", Rules, [zstd(b""), zstd(good)].concat()),
        ("zstd", "behind a frame to skip", Rules, [skippable.clone(), zstd(good)].concat()),
        ("zstd", "around a frame to skip", Rules, [zstd(first), skippable, zstd(rest)].concat()),
        ("zstd", "with a cut second frame", Unreachable, [zstd(trap), cut(zstd(rest))].concat()),
    ];
    for (coding, code) in CODINGS {
        rows.push((coding, "named, and nothing there", Unreachable, Vec::new()));
        for (name, rest, is_padding) in [
            ("with garbage behind it", &b"garbage that is no member"[..], false),
            ("with zeros behind it", &[0; 512], true),
            ("with a line end behind it", b"\n", true),
            ("with a line end and rules behind it", b"\nAllow: /\n", false),
        ] {
            let (text, expect) =
                if is_padding && coding == "gzip" { (good, Rules) } else { (trap, Unreachable) };
            rows.push((coding, name, expect, [&code(text)[..], rest].concat()));
        }
        if matches!(coding, "br" | "deflate") {
            rows.push((coding, "of two streams", Unreachable, [code(trap), code(good)].concat()));
        }
    }
    for (coding, name, expect, body) in rows {
        let head = format!("{OK}content-encoding: {coding}\r\n");
        let stated = [format!("{head}content-length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat();
        let until_closed = [format!("{head}\r\n").as_bytes(), &body].concat();
        let chunked = |size: usize| {
            let mut bytes = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
            for chunk in body.chunks(size) {
                bytes.extend([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
            }
            bytes.extend(b"0\r\n\r\n");
            bytes
        };
        for (how, bytes) in [
            ("", stated),
            (", until it is closed", until_closed),
            (", in one chunk", chunked(usize::MAX)),
            (", byte by byte", chunked(1)),
        ] {
            table.add("C16", format!("{coding} {name}{how}"), expect, raw(bytes));
        }
    }
}

fn statuses(table: &mut Table) {
    let closed = "User-agent: *\nDisallow: /\n";
    for status in [
        400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 415, 418, 421, 422, 425, 426, 431,
        451, 499,
    ] {
        table.add("S1", status.to_string(), AllowAll, Reply::new(status, closed));
    }
    let endless =
        vec![Step::send(b"HTTP/1.1 404 Not Found\r\n\r\n"), Step::Repeat(vec![b'x'; 64 * 1024], 16_384)];
    table.add("S1", "404 with an endless body", AllowAll, Reply::raw(endless));
    table.add("S3", "429", Deferred, Reply::new(429, TRAP)).also(Also::BackedOff(60));
    table
        .add("S3", "429 with an hour", Deferred, Reply::with_headers(429, &[("retry-after", "3600")], TRAP))
        .also(Also::BackedOff(3_600));
    for status in
        [500, 501, 502, 503, 504, 505, 507, 508, 511, 520, 521, 522, 523, 524, 525, 530, 599, 600, 700, 999]
    {
        table.add("S4", status.to_string(), Unreachable, Reply::new(status, TRAP));
    }
    for status in [509, 529] {
        table.add("S4", status.to_string(), Unreachable, Reply::new(status, TRAP)).also(Also::BackedOff(60));
    }
    const DAY: u64 = 86_400;
    for (wait, asked) in [
        ("0", None),
        ("-1", None),
        ("90.5", Some(91)),
        ("119.5", Some(120)),
        ("120s", Some(120)),
        ("120", Some(120)),
        ("86401", Some(DAY)),
        ("18446744073709551616", Some(DAY)),
        ("Fri, 31 Dec 1999 23:59:59 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(DAY)),
        ("soon", None),
        ("", None),
    ] {
        let reply = Reply::with_headers(503, &[("retry-after", wait)], TRAP);
        table.add("S6", format!("503 with a Retry-After of {wait:?}"), Unreachable, reply);
        table.also(Also::BackedOff(asked.unwrap_or(60)));
        let reply = Reply::with_headers(503, &[("retry-after", wait), ("retry-after", "300")], TRAP);
        table.add("S6", format!("503 with a Retry-After of {wait:?} and another"), Unreachable, reply);
        table.also(Also::BackedOff(asked.unwrap_or_default().max(300)));
    }
    let slowly = Duration::from_millis(1_500);
    table.add("S3", "429 slowly", Deferred, Reply::new(429, TRAP).after(slowly)).also(Also::BackedOff(60));
    table.add("S4", "500 slowly", Unreachable, Reply::new(500, TRAP).after(slowly));
    table.add("S4", "503 slowly", Unreachable, Reply::new(503, TRAP).after(slowly)).also(Also::BackedOff(60));
    table.play("S3", "429 behind a slow redirect", Deferred, move |seen| match seen.path.as_str() {
        "/robots.txt" => Reply::redirect(302, "/rules").after(slowly),
        _ => Reply::new(429, TRAP).after(slowly),
    });
    table.add("S7", "304 unasked", Unreachable, Reply::new(304, ""));
    table.0.last_mut().unwrap().asked = 2;
    for status in [300, 305, 306, 310, 399] {
        table.add("S8", status.to_string(), Unreachable, Reply::redirect(status, "/elsewhere"));
    }
    for status in [201, 202, 203, 226, 299] {
        table.add("S8", status.to_string(), Rules, Reply::new(status, GOOD));
    }
    table.add("S8", "204", AllowAll, Reply::new(204, ""));
    table.add("S8", "205", AllowAll, Reply::new(205, ""));
    table.add("S8", "an empty 200", AllowAll, Reply::new(200, ""));
    table.add("S8", "206 unasked", Unreachable, Reply::new(206, TRAP));
    table.add(
        "S8",
        "101",
        Unreachable,
        raw("HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
    );
    table.add(
        "S8",
        "202 with HTML",
        AllowAll,
        Reply::with_headers(202, &[("content-type", "text/html")], "<p>Just a moment"),
    );
}

/// robots.txt redirects to `/r1`, that to `/r2`, and so on.
fn next_hop(seen: &Seen) -> Reply {
    let hop: u32 = seen.path.strip_prefix("/r").and_then(|hop| hop.parse().ok()).unwrap_or(0);
    Reply::redirect(302, &format!("/r{}", hop + 1))
}

fn redirects(table: &mut Table) {
    for status in [301, 302, 303, 307, 308] {
        table.redirect("S9", status.to_string(), Reply::redirect(status, "/rules"));
    }
    for (name, location) in [
        ("a relative path", "a/../rules".to_owned()),
        ("another host", "http://elsewhere.example/rules".to_owned()),
        ("the same scheme", "//elsewhere.example/rules".to_owned()),
        ("a query", "?rules".to_owned()),
        ("a fragment", "/rules#x".to_owned()),
        ("another port", "http://elsewhere.example:80/rules".to_owned()),
        ("user information", format!("http://user:{MARKER}@elsewhere.example/rules")),
        ("an absolute path with dots", "/../../rules".to_owned()),
    ] {
        let is_elsewhere = location.contains("elsewhere");
        let to = move |seen: &Seen| match seen.path.as_str() {
            "/robots.txt" => Reply::redirect(301, &location),
            // The rules are there and not here.
            _ if is_elsewhere => Reply::new(200, TRAP),
            _ => Reply::new(200, GOOD),
        };
        table.play("S9", name, Rules, to);
    }
    for hops in [2, 5] {
        table.play("S9", format!("{hops} hops"), Rules, move |seen| {
            if seen.path == format!("/r{hops}") { Reply::new(200, GOOD) } else { next_hop(seen) }
        });
    }
    table.play("S10", "for ever", AllowAll, next_hop);
    table.add("S10", "to itself", AllowAll, Reply::redirect(302, "/robots.txt"));
    table.play("S10", "to and fro", AllowAll, |seen| {
        Reply::redirect(302, if seen.path == "/a" { "/b" } else { "/a" })
    });
    for (name, fields, path) in [
        ("the same Location twice", &b"location: /rules\r\nlocation: /rules\r\n"[..], "/rules"),
        ("a Location in Latin-1", b"location: /r\xe8gles\r\n", "/r%E8gles"),
        ("a Location in UTF-8", "location: /r\u{e8}gles\r\n".as_bytes(), "/r%C3%A8gles"),
    ] {
        let head = [b"HTTP/1.1 301 Moved\r\ncontent-length: 0\r\n".as_slice(), fields, b"\r\n"].concat();
        table.play("S9", name, Rules, move |seen| match seen.path.as_str() {
            "/robots.txt" => raw(head.clone()),
            found => Reply::new(200, if found == path { GOOD } else { TRAP }),
        });
    }
    let bomb = vec![
        Step::send(b"HTTP/1.1 302 Found\r\nlocation: /rules\r\n\r\n"),
        Step::Repeat(vec![b'x'; 64 * 1024], 16_384),
    ];
    table.redirect("S15", "a bomb in a redirect", Reply::raw(bomb));
    let coded = b"HTTP/1.1 302 Found\r\nlocation: /rules\r\ncontent-encoding: gzip\r\n\r\n";
    let bomb = vec![Step::send(coded), Step::Repeat(gzip(&[0; 16 * 1024 * 1024]), 65_536)];
    table.redirect("S15", "a compressed bomb in a redirect", Reply::raw(bomb));
    table.play("S16", "cookies on the way", Rules, |seen| match seen.path.as_str() {
        "/robots.txt" => {
            Reply::with_headers(302, &[("location", "/rules"), ("set-cookie", "a=1; Path=/")], "")
        }
        _ => Reply::with_headers(200, &[("set-cookie", "b=2; Path=/")], GOOD),
    });
    let refresh = Reply::with_headers(200, &[("refresh", "0; url=/elsewhere")], GOOD);
    table.add("S9", "a Refresh field is no redirect", Rules, refresh);
}

fn refused_redirects(table: &mut Table) {
    for location in [
        "file:///etc/passwd",
        "ftp://elsewhere.example/",
        "data:text/plain,User-agent:%20*",
        "javascript:alert(1)",
        "gopher://elsewhere.example/",
        "s3://elsewhere.example/robots.txt",
        "ws://elsewhere.example/",
        "about:blank",
        "mailto:a@b.example",
        "",
        "//",
        "http://",
        "http://a b.example/",
        "http://[::1",
        "http://a.example:0/",
        "http://a.example:99999/",
        "http://%00.example/",
        "http://a<b.example/",
    ] {
        table
            .add("S11", format!("to {location:?}"), Unreachable, Reply::redirect(302, location))
            .also(Also::RedirectRefused);
    }
    let fields = |fields: &[u8]| {
        raw([b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n".as_slice(), fields, b"\r\n"].concat())
    };
    let long = format!("location: /{}\r\n", "x".repeat(64 * 1024));
    for (name, bytes) in [
        ("no Location", &b""[..]),
        ("two Locations", b"location: /a\r\nlocation: /b\r\n"),
        ("two Locations, and one of them twice", b"location: /a\r\nlocation: /b\r\nlocation: /a\r\n"),
        ("a host that is no UTF-8", b"location: http://a\xff.example/\r\n"),
        ("a Location of 64 KiB", long.as_bytes()),
        ("a Location with a tab", b"location: /a\tb\r\n"),
    ] {
        table.add("S11", name, Unreachable, fields(bytes)).also(Also::RedirectRefused);
    }
}

fn addresses(table: &mut Table, silent: u16) {
    // Not this machine's, so that nothing can listen there: they are refused for what they are, and not
    // because nothing answers.
    let foreign = "10.0.0.1 100.64.0.1 169.254.169.254 172.16.0.1 192.168.1.1 192.0.2.1 198.18.0.1 224.0.0.1 255.255.255.255 \
                   [64:ff9b::7f00:2] [fc00::1] [fe80::1] [ff02::1] [2001:db8::1] [2002:7f00:1::]";
    for host in OWN_ADDRESSES.into_iter().chain(foreign.split(' ')) {
        let location = format!("http://{host}:{silent}/robots.txt");
        table
            .add("S12", format!("to {host}"), Unreachable, Reply::redirect(302, &location))
            .also(Also::AddressRefused);
    }
}

fn fields(table: &mut Table) {
    const DAY: u64 = 86_400;
    for (value, lasts) in [
        ("max-age=0", 300),
        ("max-age=60", 300),
        ("max-age=3600", 3_600),
        ("max-age=1000000", DAY),
        ("max-age=-1", DAY),
        ("max-age=18446744073709551616", DAY),
        ("max-age=soon", DAY),
        ("no-store", 300),
        ("max-age=\"5\"", 300),
        (",,,", DAY),
    ] {
        let reply =
            Reply::with_headers(200, &[("cache-control", value), ("age", "999999999"), ("date", "x")], GOOD);
        table.add("S17", format!("Cache-Control: {value}"), Rules, reply).also(Also::Lasts(lasts));
    }
    for value in ["application/octet-stream", "text/plain; charset=utf-16", "image/png", "nonsense", ""] {
        table.add(
            "S8",
            format!("Content-Type: {value}"),
            Rules,
            Reply::with_headers(200, &[("content-type", value)], GOOD),
        );
    }
    let etag = format!("\"{}\"", "x".repeat(8_000));
    table.add("S21", "an ETag of 8 KB", Rules, Reply::with_headers(200, &[("etag", &etag)], GOOD));
}

fn contents(table: &mut Table) {
    let wide = |mark: [u8; 2], unit: fn(u16) -> [u8; 2]| {
        mark.into_iter().chain(GOOD.encode_utf16().flat_map(unit)).collect::<Vec<u8>>()
    };
    let with = |before: &[u8]| [before, GOOD.as_bytes()].concat();
    let agents: String = (0..20_000).map(|n| format!("User-agent: bot{n}\n")).collect();
    // So that this line ends with byte number `end`.
    let ends_at = |end: usize, rest: &str| {
        let (start, line) = ("User-agent: *\n#", "\nDisallow: /closed");
        let filler = "x".repeat(end - start.len() - line.len());
        format!("{start}{filler}{line}{rest}").into_bytes()
    };
    let long = "*".repeat(20_000);
    let stars = format!("{GOOD}{}", format!("Disallow: /{}x\n", "*a".repeat(500)).repeat(400));
    for (id, name, expect, body) in [
        ("T1", "HTML with rules in it", Rules, with(b"<html>\n")),
        ("T1", "HTML without rules", AllowAll, b"<!doctype html><html><p>Hello</p></html>".to_vec()),
        ("T1", "JSON", AllowAll, b"{\"error\": \"not found\"}".to_vec()),
        ("T2", "a byte order mark", Rules, with(b"\xef\xbb\xbf")),
        ("T2", "half a byte order mark", Rules, with(b"\xef\xbb")),
        ("T2", "the first byte of a byte order mark", Rules, with(b"\xef")),
        ("T3", "UTF-16 LE", Rules, wide([0xff, 0xfe], u16::to_le_bytes)),
        ("T3", "UTF-16 BE", Rules, wide([0xfe, 0xff], u16::to_be_bytes)),
        ("T4", "Latin-1 before", Rules, with(b"# \xe9t\xe9\nSitemap: \xff\n")),
        ("T4", "NUL before", Rules, with(b"\0\0\0\n")),
        ("T4", "carriage returns alone", Rules, GOOD.replace('\n', "\r").into()),
        ("T4", "CR CR LF", Rules, GOOD.replace('\n', "\r\r\n").into()),
        ("T4", "vertical tabs", Rules, with(b"User-agent: a\x0b\x0c\n")),
        ("T5", "a line of 400 KB before", Rules, with(&[vec![b'x'; 400_000], b"\n".to_vec()].concat())),
        ("T5", "a rule that ends at the limit, and the file with it", Rules, ends_at(512_000, "")),
        ("T5", "a rule that ends at the limit, and its line", Rules, ends_at(512_000, "\nAllow: /closed\n")),
        ("T5", "a rule that ends at the limit, and CR LF", Rules, ends_at(512_000, "\r\nAllow: /closed\n")),
        ("T5", "a rule that goes on behind the limit", AllowAll, ends_at(512_000, "x\n")),
        ("T5", "a rule that ends one byte behind the limit", AllowAll, ends_at(512_001, "")),
        ("T5", "a line that ends one byte behind the limit", AllowAll, ends_at(512_001, "\nAllow: /\n")),
        ("T6", "one line of 10 MB", AllowAll, vec![b'x'; 10_000_000]),
        ("T6", "an Allow of 20 KB", Rules, format!("{GOOD}Allow: /clo{long}sed\n").into()),
        ("T6", "a Disallow of 20 KB", Rules, format!("User-agent: *\nDisallow: /closed{long}x\n").into()),
        ("T9", "a Crawl-delay of 1e309", Rules, format!("{GOOD}Crawl-delay: 1e309\n").into()),
        ("T9", "a Crawl-delay of NaN", Rules, format!("{GOOD}Crawl-delay: NaN\n").into()),
        ("T9", "a Crawl-delay of -1", Rules, format!("{GOOD}Crawl-delay: -1\n").into()),
        ("T9", "a Crawl-delay of 0.5", Rules, format!("{GOOD}Crawl-delay: 0.5\n").into()),
        ("T9", "a Crawl-delay of 10^9", TooSlow, format!("{GOOD}Crawl-delay: 1000000000\n").into()),
        ("T10", "broken App-Directives", Rules, format!("App-Directives: ;;==((\"\n{GOOD}App-Directives: ,\n").into()),
        ("T10", "App-Directives of 100 KB", Rules, format!("App-Directives: a;{}\n{GOOD}", "b;".repeat(50_000)).into()),
        ("T11", "escapes in a token and a comment", Rules, with(b"User-agent: \x1b[31mx\nDisallow: /\x1b[2J\n\x1b]0;x\x07\n")),
        ("T11", "escapes beside the rule", Rules, "User-agent: *\x1b[31m\nUser-agent: ExampleBot\x1b[0m\nUser-agent: *\nDisallow: /closed\x1b\nDisallow: /cl*\u{7}*\nDisallow: /closed # \x1b[2J\n".into()),
        ("G11", "20,000 agents before", Rules, with(agents.as_bytes())),
        ("G11", "stars", Rules, stars.into()),
        ("G11", "colons", Rules, with(&b":\n".repeat(100_000))),
        ("G11", "escapes", Rules, with(&b"User-agent: x\nAllow: /%%%%%%41%4\n".repeat(5_000))),
    ] {
        table.add(id, name, expect, Reply::new(200, body));
    }
}
