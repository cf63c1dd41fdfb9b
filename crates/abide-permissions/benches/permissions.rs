//! What reading permissions costs: `cargo bench -p abide-permissions`. The goals stand in `docs/performance.md`.

#![allow(missing_docs, reason = "criterion's macros make the functions public")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by it")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::SystemTime;

use abide_permissions::{Head, HeadScanner, Permissions, Progress, ReadOptions};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

fn options() -> ReadOptions {
    ReadOptions::new("ExampleBot".parse().unwrap())
}

/// A page as content systems write it: a head of about 8.2 KB, and paragraphs up to the length.
fn page(length: usize, noindex: bool) -> String {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>A page</title>\n",
    );
    for n in 0..18 {
        writeln!(
            page,
            "<meta property=\"og:item{n}\" content=\"Some words about item {n} &amp; its neighbours\">"
        )
        .unwrap();
        writeln!(page, "<link rel=\"preload\" href=\"/assets/{n}/bundle.min.css?v=1.2.{n}\" as=\"style\">")
            .unwrap();
    }
    if noindex {
        page.push_str("<meta name=\"robots\" content=\"noindex, max-snippet:50\">\n");
    }
    page.push_str("<style>\n");
    for n in 0..30 {
        writeln!(page, ".block-{n} > a:hover {{ color: #0{n:02}; margin: {n}px auto; }}").unwrap();
    }
    page.push_str("</style>\n<script>\n");
    while page.len() < 7_900 {
        page.push_str("window.queue = window.queue || []; queue.push(['event', 'load', Date.now() < 5]);\n");
    }
    page.push_str("</script>\n<!-- the end of the head -->\n</head>\n<body>\n");
    while page.len() < length {
        page.push_str("<p class=\"text\">Lorem ipsum dolor sit amet, <a href=\"/consectetur\">consectetur</a> elit.</p>\n");
    }
    page
}

fn scan(options: &ReadOptions, page: &[u8], chunk: usize) -> Head {
    let mut scanner = HeadScanner::new(options, Some("text/html; charset=utf-8"));
    for chunk in page.chunks(chunk) {
        if scanner.feed(chunk) == Progress::Done {
            break;
        }
    }
    scanner.finish()
}

fn floor(selectors: &[lol_html::Selector; 2], page: &[u8]) -> bool {
    use lol_html::html_content::Element;
    use lol_html::{ElementContentHandlers, HtmlRewriter, Settings};
    use std::borrow::Cow;
    let mut content = None;
    let meta = |element: &mut Element<'_, '_>| {
        content = element.get_attribute("content");
        Ok(())
    };
    let body = |_: &mut Element<'_, '_>| Err("body".into());
    let settings = Settings::new()
        .append_element_content_handler((
            Cow::Borrowed(&selectors[0]),
            ElementContentHandlers::default().element(meta),
        ))
        .append_element_content_handler((
            Cow::Borrowed(&selectors[1]),
            ElementContentHandlers::default().element(body),
        ));
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    let stopped = page.chunks(4096).any(|chunk| rewriter.write(chunk).is_err());
    drop(rewriter);
    stopped && content.is_some()
}

fn heads(criterion: &mut Criterion) {
    let options = options();
    let mut group = criterion.benchmark_group("head");
    for (name, length) in [("10 KB", 10_000), ("100 KB", 100_000), ("1 MB", 1_000_000)] {
        for (kind, noindex) in [("plain", false), ("robots meta", true)] {
            let page = page(length, noindex);
            assert_eq!(
                scan(&options, page.as_bytes(), 4096).metas().iter().any(|m| m.name() == "robots"),
                noindex
            );
            group.throughput(Throughput::Bytes(8_200));
            group.bench_function(format!("{name}, {kind}"), |bencher| {
                bencher.iter(|| scan(&options, black_box(page.as_bytes()), 4096));
            });
        }
    }
    // The floor: what lol_html costs by itself when it is stopped at `<body>`, and finds robots metas by selector.
    let selectors: [lol_html::Selector; 2] = ["meta[name=robots]", "body"].map(|text| text.parse().unwrap());
    let page = page(10_000, true);
    group.bench_function("lol_html alone", |bencher| {
        bencher.iter(|| floor(&selectors, black_box(page.as_bytes())));
    });
    group.bench_function("creation", |bencher| {
        bencher.iter_batched(
            || (),
            |()| HeadScanner::new(black_box(&options), Some("text/html")),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("creation and one byte", |bencher| {
        bencher.iter(|| {
            let mut scanner = HeadScanner::new(black_box(&options), Some("text/html"));
            let _ = scanner.feed(b" ");
            scanner
        });
    });
    group.finish();
}

fn fields(criterion: &mut Criterion) {
    let options = options();
    let others =
        [("content-type", b"text/html".as_slice()), ("cache-control", b"max-age=60"), ("etag", b"\"x\"")];
    let members = |count: usize| {
        let members = (0..count).map(|n| match n % 4 {
            0 => "*;nosnippet".to_owned(),
            1 => format!("Other{n}Bot;noindex;max-snippet={n}"),
            2 => "ExampleBot;noindex".to_owned(),
            _ => "\"some-bot\";noindex;unavailable_after=@1735689600".to_owned(),
        });
        members.collect::<Vec<_>>().join(", ")
    };
    let mut group = criterion.benchmark_group("fields");
    group.bench_function("no field", |bencher| {
        bencher
            .iter(|| Permissions::read(&options, black_box(others), Head::default(), SystemTime::UNIX_EPOCH));
    });
    for count in [1, 3, 20, 500] {
        let value = members(count);
        group.bench_function(format!("{count} members, sfv alone"), |bencher| {
            bencher.iter(|| {
                sfv::Parser::new(black_box(&value)).parse_list_with_visitor(sfv::visitor::Ignored).is_ok()
            });
        });
        group.bench_function(format!("{count} members"), |bencher| {
            bencher.iter(|| {
                let field = [("robots-tag", black_box(value.as_bytes()))];
                Permissions::read(&options, field, Head::default(), SystemTime::UNIX_EPOCH)
            });
        });
    }
    for value in
        ["noindex, nofollow", "googlebot: noindex, nofollow", "unavailable_after: 25 Jun 2010 15:00:00 PST"]
    {
        group.bench_function(value, |bencher| {
            bencher.iter(|| {
                let field = [("x-robots-tag", black_box(value.as_bytes()))];
                Permissions::read(&options, field, Head::default(), SystemTime::UNIX_EPOCH)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, heads, fields);
criterion_main!(benches);
