//! The pages that are measured, here and by the benches of `abide`: the only place where they are made.

use std::fmt::Write as _;

/// A page as content systems write it: a head of 9 KB with 38 metas, one of them for robots, and 18 links;
/// then paragraphs up to the length.
pub(crate) fn page(length: usize) -> String {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>A page</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
    );
    for n in 0..35 {
        let _ = writeln!(
            page,
            "<meta property=\"og:item{n}\" content=\"Some words about item {n} &amp; its neighbours\">"
        );
        if n < 18 {
            let _ = writeln!(
                page,
                "<link rel=\"preload\" href=\"/assets/{n}/bundle.min.css?v=1.2.{n}\" as=\"style\">"
            );
        }
    }
    page.push_str("<meta name=\"robots\" content=\"noindex, max-snippet:50\">\n<style>\n");
    for n in 0..30 {
        let _ = writeln!(page, ".block-{n} > a:hover {{ color: #0{n:02}; margin: {n}px auto; }}");
    }
    page.push_str("</style>\n<script>\n");
    while page.len() < 8_900 {
        page.push_str("window.queue = window.queue || []; queue.push(['event', 'load', Date.now() < 5]);\n");
    }
    page.push_str("</script>\n<!-- the end of the head -->\n</head>\n");
    if length > page.len() {
        page.push_str("<body>\n");
    }
    while page.len() < length {
        page.push_str("<p class=\"text\">Lorem ipsum dolor sit amet, <a href=\"/consectetur\">consectetur</a> elit.</p>\n");
    }
    page
}

pub(crate) fn page_with_small_head() -> String {
    let links: String = (0..10)
        .map(|number| format!("<link rel=stylesheet href=/style/{number}.css media=screen>\n"))
        .collect();
    let head = format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>A page</title>\n<meta name=robots content=noarchive>\n<meta name=description content='{}'>\n{links}</head><body>\n",
        "words ".repeat(60)
    );
    let body = "<p>Text of a page, with <a href=/x>a link</a> in it.</p>\n".repeat(170);
    format!("{head}{body}</body></html>")
}
