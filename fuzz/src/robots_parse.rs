//! Any octets are read: the document and the compiled rules agree, a cut at a line end reads a prefix, an unknown record
//! changes no verdict, and memory stays within a multiple of the input.

use abide_robots::{ProductToken, Profile, ReadOptions, Robots, Rules, Target};

/// What the first line of this file says.
pub fn run(body: &[u8]) {
    let tokens = ["a", "foobot"].map(|token| ProductToken::new(token).expect("a token"));
    let targets = ["/", "/a?b=/c", "/%41%2f", "/robots.txt", "/aaaab/é"].map(Target::new);
    let rules = Rules::parse(body, &tokens);
    let robots = Robots::parse(body);
    assert_eq!(robots.rules(&tokens), rules, "the document agrees");
    assert!(rules.heap_size() <= 4096 + 24 * body.len(), "memory");
    for target in &targets {
        let verdict = rules.verdict(target);
        assert_eq!(verdict.is_allowed(), rules.is_allowed(target));
        assert_eq!(
            verdict.rule().map(|rule| rule.line()),
            robots.explain(&tokens, target).verdict().rule().map(|rule| rule.line())
        );
        let _ = verdict.to_string();
    }
    for remark in robots.remarks() {
        assert!(remark.line() > 0 && !remark.to_string().contains('\n'));
    }
    let google = ReadOptions::new().with_profile(Profile::Google);
    let _ = Rules::parse_with(body, &tokens, google).verdict(&targets[1]);

    // Behind a line end of the file, what follows is not needed to read what is before.
    if let Some(end) = body.iter().position(|&octet| octet == b'\n')
        && !body.starts_with(b"\xff\xfe")
        && !body.starts_with(b"\xfe\xff")
    {
        let whole: Vec<_> = robots.records().map(|record| (record.kind(), record.value().to_vec())).collect();
        let part = Robots::parse(&body[..=end]);
        let part: Vec<_> = part.records().map(|record| (record.kind(), record.value().to_vec())).collect();
        assert!(whole.starts_with(&part), "a prefix reads as a prefix");

        let with_record = [&body[..=end], b"x-unknown: y\n", &body[end + 1..]].concat();
        let with_record = Rules::parse(&with_record, &tokens);
        for target in &targets {
            assert_eq!(
                with_record.is_allowed(target),
                rules.is_allowed(target),
                "an unknown record changes nothing"
            );
        }
    }
}
