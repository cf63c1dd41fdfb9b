//! What a head costs in memory, whatever it holds (G6): counted by the allocator, in a process of its own.

#![allow(clippy::restriction, reason = "a test that cannot go on fails")]

use std::alloc::System;

use abide_permissions::{AppDirectives, HeadScanner, ReadOptions};
use abide_robots::{Rules, Target};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const META: &str = "<meta name=robots content=noindex>";
/// What is read of a head at most, by default.
const HEAD: usize = 512 * 1024;
/// So small that what is allocated for a while and what is kept cannot be far apart.
const PIECE: usize = 64;

/// What the scan of this document holds at most: for each piece what was held before, and all that was
/// allocated meanwhile.
fn most_held(document: &str, content_type: &str) -> usize {
    let region = Region::new(ALLOCATOR);
    let options = ReadOptions::new("ExampleBot".parse().unwrap()).with_whole_document(true);
    let mut scanner = HeadScanner::new(&options, Some(content_type));
    let (mut held, mut allocated, mut most) = (0, 0, 0);
    for piece in document.as_bytes().chunks(PIECE) {
        let progress = scanner.feed(piece);
        let now = region.change();
        most = most.max(held + (now.bytes_allocated - allocated));
        (held, allocated) = (now.bytes_allocated - now.bytes_deallocated, now.bytes_allocated);
        if progress.is_break() {
            break;
        }
    }
    let head = scanner.finish();
    let now = region.change();
    assert!(head.bytes() > 0);
    most.max(held + (now.bytes_allocated - allocated))
}

/// As long as it takes to meet the limit of bytes.
fn endless(first: &str, piece: &str) -> String {
    format!("{first}{}", piece.repeat(HEAD / piece.len() + 1))
}

/// What an honest head costs, and a hostile one that nothing need be kept of.
const ORDINARY: usize = 128 * 1024;
/// The limit of what is kept of one tag, and as much again as is read: what is found is kept, at up to three
/// times its length.
const HOSTILE: usize = 1024 * 1024 + HEAD;

#[test]
fn a_head_costs_no_more_than_its_bound() {
    let honest = format!(
        "<!doctype html><head><title>A page</title>{META}{}</head>",
        "<link rel=stylesheet href=/a/style.css><script>let a = 1;</script>".repeat(500)
    );
    let html = vec![
        ("an honest page", honest, ORDINARY),
        ("links", endless(META, "<link rel=x href=y>\n"), ORDINARY),
        ("a comment", endless(&format!("{META}<!--"), "x"), ORDINARY),
        ("a style", endless(&format!("{META}<style>"), "a{}"), ORDINARY),
        ("brackets", endless(META, "<"), ORDINARY),
        ("references", endless(&format!("{META}<title>"), "&NotEqualTilde;"), ORDINARY),
        ("end tags", endless("</x>", "</br>"), ORDINARY),
        ("a noscript", endless(&format!("{META}<noscript>"), "<link rel=x>"), ORDINARY),
        ("noscripts", endless(META, "<noscript><link></noscript>"), ORDINARY),
        ("white space", endless(" ", " "), ORDINARY),
        // Of these something must be kept: one tag as a whole, every meta, every template that is open.
        ("an attribute", endless(&format!("{META}<link x=\""), "y"), HOSTILE),
        ("attributes", endless(&format!("{META}<link "), "a b=c "), HOSTILE),
        ("a tag name", endless(&format!("{META}<"), "a"), HOSTILE),
        ("content", endless("<meta name=robots content=\"", "noindex,"), HOSTILE),
        ("metas", endless("", META), HOSTILE),
        ("metas of no interest", endless(META, "<meta name=a content=b>"), HOSTILE),
        ("metas in a noscript", endless("<noscript>", META), HOSTILE),
        ("templates", endless(META, "<template>"), HOSTILE),
        ("a body", endless("<body>", "<p class=a>text</p>\n"), ORDINARY),
        ("metas of a body", endless("<body>", META), ORDINARY),
        ("noscripts of a body", endless("<body>", &format!("<noscript>{META}</noscript>")), ORDINARY),
        ("open elements of a body", endless("<body>", "<b>"), HOSTILE),
    ];
    let open = "<html xmlns='http://www.w3.org/1999/xhtml'><head>";
    let long_name = "x".repeat(4000);
    // XHTML is read in two ways until it turns out to be well-formed.
    let xhtml = vec![
        ("links", endless(open, "<link rel='x' href='y'/>"), ORDINARY),
        ("a comment", endless(&format!("{open}<!--"), "x"), ORDINARY),
        ("text", endless(&format!("{open}<title>"), "x"), HOSTILE),
        ("an attribute", endless(&format!("{open}<link x='"), "y"), HOSTILE),
        ("attributes", endless(&format!("{open}<link "), "a='c' "), HOSTILE),
        ("a name", endless(&format!("{open}<"), "x"), HOSTILE),
        ("open elements", endless(open, "<x>"), HOSTILE),
        ("long names", endless(open, &format!("<{long_name}>")), HOSTILE),
        ("prefixes", endless(open, "<x xmlns:a='u' xmlns:b='v' xmlns:c='w'>"), HOSTILE),
        ("a doctype", endless("<!DOCTYPE html [", "<!ELEMENT x ANY>"), HOSTILE),
        ("entities", endless("<!DOCTYPE html [", "<!ENTITY a 'bbbbbbbbbbbb'>"), HOSTILE),
        ("a processing instruction", endless(&format!("{open}<?x "), "y"), HOSTILE),
        ("metas", endless(open, "<meta name='robots' content='noindex'/>"), HOSTILE),
    ];
    for (content_type, cases) in [("text/html", html), ("application/xhtml+xml", xhtml)] {
        for (what, document, bound) in cases {
            let most = most_held(&document, content_type);
            println!("{content_type}, {what}: {most} bytes");
            assert!(most > 0, "{what}: something is counted");
            assert!(most <= bound, "{what}: {} KiB, and {} are the bound", most / 1024, bound / 1024);
        }
    }
    // Not beside the others, whose allocations would count.
    a_long_record_costs_little_for_each_of_its_members();
}

/// A record of robots.txt is kept once, however many applications it names.
fn a_long_record_costs_little_for_each_of_its_members() {
    let record = format!("User-agent: *\nApp-Directives: /{} {}", "b".repeat(8000), "a,".repeat(4000));
    let rules = Rules::parse(record.trim_end_matches(',').as_bytes(), &["ExampleBot".parse().unwrap()]);
    let path = format!("/{}", "b".repeat(8000));
    let (target, region) = (Target::new(&path), Region::new(ALLOCATOR));
    let directives = AppDirectives::of(&rules, &target);
    let held = region.change();
    assert_eq!(directives.apps().count(), 4000);
    assert!(held.bytes_allocated - held.bytes_deallocated < 1024 * 1024, "{held:?}");
}
