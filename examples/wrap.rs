//! The shortest way: wrap your reqwest client, and use it as before.

use abide::{Abide, Denied, DeniedKind, ResponseExt};
use abide_examples::{Web, plain_client};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // A small web on loopback stands in for the real one: leave it out, and give your own
    // `reqwest::Client::builder()`.
    let web = Web::start().await;
    let builder = Abide::builder("ExampleBot").user_agent("ExampleBot/1.0 (+https://example.com/bot)");
    let client = web.stand_in(builder).build_client(plain_client())?;

    for url in [
        "http://bakery.example/bread.html",
        "http://bakery.example/private/recipes.html",
        // An allowed page that redirects into a disallowed one.
        "http://bakery.example/old-recipes",
        "http://busy.example/shop.html",
    ] {
        match client.get(url).send().await {
            Ok(page) => {
                let (status, may_index) = (page.status(), page.permissions().may_index());
                println!("{status}  {url}: {} bytes, may be indexed: {may_index}", page.bytes().await?.len());
            }
            Err(error) => match Denied::find(&error) {
                Some(denied) => match denied.kind() {
                    DeniedKind::Disallowed { verdict } => println!("skip {url}: {verdict}"),
                    DeniedKind::Deferred { .. } => println!("later {denied}"),
                    _ => println!("no   {denied}"),
                },
                None => println!("fail {url}: {error}"),
            },
        }
    }
    Ok(())
}
