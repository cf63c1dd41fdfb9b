//! Any bytes are read: the document and the compiled rules agree, a cut at any line end reads a prefix, an
//! unknown record changes no verdict, memory stays within a multiple of the input, and 512,000 bytes made of
//! it are read and asked in bounded time.

use abide_robots::{ParseOptions, ProductToken, RecordKind, Robots, Rules, Target};

/// Records that are not read (RFC 9309 §2.2.4), some of them close to those that are read.
const UNKNOWN: [&[u8]; 6] =
    [b"x-unknown: y", b"allowed: /", b"disallow-all: /", b"user-agents: *", b"noindex: /", b": /"];

/// What the first lines of this file say.
pub fn run(body: &[u8]) {
    let tokens = ["a", "foobot"].map(|token| ProductToken::new(token).expect("a token"));
    let targets = ["/", "/a?b=/c", "/%41%2f", "/robots.txt", "/aaaab/é"].map(Target::new);
    let mut compiled = None;
    let used = allocation_counter::measure(|| compiled = Some(Rules::parse(body, &tokens)));
    let rules = compiled.expect("it was just put there");
    // A pattern is kept as it was written, in its normal form and as it reads in a query, with up to three
    // bytes for each byte.
    let length = body.len();
    assert!(rules.heap_size() <= 9 * length + 256, "memory: {} for {length}", rules.heap_size());
    let (most, all, pieces) = (used.bytes_max as usize, used.bytes_total as usize, used.count_total as usize);
    assert!(most <= 24 * length + 1024, "memory on the way: {used:?} for {length}");
    assert!(all <= 48 * length + 4096 && pieces <= length / 3 + 64, "work: {used:?} for {length}");
    let robots = Robots::parse(body);
    assert_eq!(robots.rules(&tokens), rules, "the document agrees");
    for target in &targets {
        let verdict = rules.verdict(target);
        assert_eq!(verdict.is_allowed(), rules.is_allowed(target));
        assert_eq!(
            verdict.rule().map(|rule| rule.line()),
            robots.verdict(&tokens, target).rule().map(|rule| rule.line())
        );
        let _ = verdict.to_string();
    }
    for remark in robots.remarks() {
        assert!(remark.line() > 0 && !remark.to_string().contains('\n'));
    }
    let google = ParseOptions::google();
    let _ = Rules::parse_with(body, &tokens, google).verdict(&targets[1]);

    // In UTF-16 a byte is no line end.
    if !body.starts_with(b"\xff\xfe") && !body.starts_with(b"\xfe\xff") {
        let ends = line_ends(body);
        // The first, the last, and two between.
        let mut tried = [0, ends.len() / 3, ends.len() * 2 / 3, ends.len().saturating_sub(1)].to_vec();
        tried.dedup();
        for number in tried {
            if let Some(&end) = ends.get(number) {
                cut(&robots, body, end, number as u32 + 1);
                let record = UNKNOWN[(body.len() + number) % UNKNOWN.len()];
                let with_record = [&body[..end], record, b"\n", &body[end..]].concat();
                let with_record = Rules::parse(&with_record, &tokens);
                for target in &targets {
                    let (with, without) = (with_record.is_allowed(target), rules.is_allowed(target));
                    assert_eq!(with, without, "an unknown record changes nothing");
                }
                assert_eq!(with_record.crawl_delay(), rules.crawl_delay());
                assert!(with_record.group().eq(rules.group()) && with_record.sitemaps().eq(rules.sitemaps()));
            }
        }
    }
    if crate::one_in(1024, body) {
        whole_file(body, &tokens);
    }
}

/// Where lines end, behind CR, LF or both.
fn line_ends(body: &[u8]) -> Vec<usize> {
    let is_end =
        |at: &usize| body[at - 1] == b'\n' || (body[at - 1] == b'\r' && body.get(*at) != Some(&b'\n'));
    (1..=body.len()).filter(is_end).collect()
}

/// What follows a line end is not needed to read what is before, and is not read into it.
fn cut(whole: &Robots, body: &[u8], end: usize, lines: u32) {
    type Seen<'a> = (RecordKind, &'a [u8], &'a [u8], u32);
    fn seen(robots: &Robots) -> impl Iterator<Item = Seen<'_>> {
        robots.records().map(|record| (record.kind(), record.key(), record.value(), record.line()))
    }
    let part = Robots::parse(&body[..end]);
    assert!(seen(whole).take_while(|record| record.3 <= lines).eq(seen(&part)), "a prefix reads as a prefix");
}

/// As much as is read of a file (RFC 9309 §2.5), made of the input again and again, each line another; and a
/// long target made of it.
fn whole_file(body: &[u8], tokens: &[ProductToken]) {
    const LIMIT: usize = 512_000;
    let mut file = Vec::with_capacity(LIMIT + body.len() + 32);
    let mut number = 0;
    while file.len() < LIMIT {
        for line in body.split_inclusive(|byte| *byte == b'\n') {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            file.extend_from_slice(text);
            file.extend_from_slice(format!("{number}\n").as_bytes());
            number += 1;
        }
        if body.is_empty() {
            return;
        }
    }
    let rules = crate::in_time(|| Rules::parse(&file, tokens));
    let robots = crate::in_time(|| Robots::parse(&file));
    assert_eq!(crate::in_time(|| robots.rules(tokens)), rules, "the document agrees");
    crate::in_time(|| robots.remarks().len());
    let text: String =
        format!("/{}", String::from_utf8_lossy(body)).chars().cycle().take(16 * 1024).collect();
    let target = Target::new(&text);
    crate::in_time(|| rules.is_allowed(&target));
}
