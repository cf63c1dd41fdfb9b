//! What may be done with a page, and stopping as soon as the answer is no.
//!
//! `send()` returns when the head of the page has been seen: the permissions are known, and the rest is still
//! on the wire. A body that is dropped is not downloaded.

#![allow(clippy::arithmetic_side_effects, reason = "an example counts a handful of pages")]

use abide::{Abide, ResponseExt};
use abide_examples::{LONG_PAGE, Web, plain_client};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let web = Web::start().await; // in place of the real web
    // This token has a group of its own in the journal's robots.txt.
    let builder = Abide::builder("AbideExample").user_agent("AbideExample/1.0 (+https://example.com/bot)");
    let client = web.stand_in(builder).build_client(plain_client())?;

    for page in ["header.html", "meta.html", "snippet.html", "long.html"] {
        let response = client.get(format!("http://journal.example/{page}")).send().await?;
        let permissions = response.permissions();
        println!("{page}: asks for {:?}", permissions.rules().to_string());
        for (source, rules) in permissions.statements() {
            println!("    {rules} by {source:?}");
        }
        // Three answers: yes, no, and "its head could not be read", which is no yes.
        if permissions.noindex_known() != Some(false) {
            println!("    not for the index: dropped unread");
            continue;
        }
        let text = response.text().await?;
        let limit = usize::try_from(permissions.snippet_limit().unwrap_or(160)).unwrap_or(usize::MAX);
        let snippet: String = text.chars().take(limit).collect();
        println!("    indexed, with a snippet of {} characters", snippet.chars().count());
    }

    // What was in flight when the body was dropped is lost; the rest was never sent.
    let sent = web.long_page_sent();
    println!("the long page has {LONG_PAGE} bytes; {sent} were sent, {} saved", LONG_PAGE - sent);
    Ok(())
}
