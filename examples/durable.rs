//! A crawler that is started twice: what it has fetched and observed is in a file.
//!
//! In its first life it asks three sites of the embedded web for robots.txt and some pages, and one of them
//! asks it to stay away for an hour. In its second life it asks for no robots.txt again, and leaves that one
//! alone. The first request to each of the others comes one whole delay after the start: no clock says for
//! sure how long the crawler was away.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use abide::{Abide, Denied, ResponseExt};
use abide_examples::{Web, plain_client};
use abide_redb::Store;

const PAGES: [&str; 6] = [
    "http://bakery.example/bread.html",
    "http://bakery.example/private/recipes.html",
    "http://open.example/mill.html",
    "http://busy.example/stalls.html",
    "http://busy.example/shop.html",
    "http://busy.example/",
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let web = Web::start().await;
    let path = std::env::temp_dir().join(format!("abide-durable-{}.redb", std::process::id()));
    println!("The first life, with a new file:");
    let first = live(&web, &path).await?;
    println!("\nThe second life, with the same file:");
    let second = live(&web, &path).await?;
    std::fs::remove_file(&path)?;
    println!("\nRequests for robots.txt: {first} in the first life, {second} in the second");
    anyhow::ensure!(second == 0, "expected every robots.txt to be known in the second life");
    Ok(())
}

/// One run of the crawler. Returns how many requests for a robots.txt it sent.
async fn live(web: &Web, path: &Path) -> anyhow::Result<u64> {
    // One file, one store, three uses. Opening it blocks for some milliseconds.
    let store = Store::open(path)?;
    let builder = Abide::builder("AbideExample")
        .user_agent("AbideExample/0.1 (+https://example.com/bot)")
        .robots_store(Arc::new(store.clone()))
        .host_store(Arc::new(store.clone()))
        .permission_store(Arc::new(store.clone()));
    let (abide, client) = web.stand_in(builder).build_both(plain_client())?;

    for url in PAGES {
        match client.get(url).send().await {
            Ok(page) => {
                let waited = page.fetch_info().map(abide::FetchInfo::waited).unwrap_or_default();
                println!("  {url}\n      {}, after {:.1} s", page.status(), waited.as_secs_f64());
            }
            Err(error) => match Denied::find(&error) {
                Some(denied) => println!("  {url}\n      {denied}"),
                None => println!("  {url}\n      {error}"),
            },
        }
    }
    let requests = abide.gate().stats().robots_requests;
    // A backoff is handed to the store by a task of its own.
    abide.gate().settled(Duration::from_secs(2)).await;
    // Dropping the store would write everything, too; this says whether it could.
    store.close().await?;
    Ok(requests)
}
