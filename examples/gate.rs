//! May it be fetched? Asked without fetching: one URL, from what is known, and many thousands.

#![allow(clippy::arithmetic_side_effects, reason = "an example counts a handful of pages")]

use std::time::Instant;

use abide::{Abide, Origin, Target};
use abide_examples::{Web, plain_client};
use url::Url;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let web = Web::start().await; // in place of the real web
    let builder = Abide::builder("ExampleBot").user_agent("ExampleBot/1.0 (+https://example.com/bot)");
    let (abide, _client) = web.stand_in(builder).build_with(plain_client())?;

    // Asks for robots.txt if need be, and never for the URL itself. The verdict says why.
    let recipes: Url = "http://bakery.example/private/recipes.html".parse()?;
    println!("known before: {}", abide.check_cached(&recipes).is_some());
    for url in [recipes.clone(), recipes.join("menu.html")?, "http://broken.example/".parse()?] {
        let verdict = abide.check(&url).await?;
        println!("{:<9} {url}\n          {verdict}", if verdict.is_allowed() { "allowed" } else { "denied" });
    }
    // From memory: no I/O, so also where nothing can be awaited.
    println!("known now: {}", abide.check_cached(&recipes).is_some());
    println!("requests for pages so far: {}", web.asked().len());

    // Many URLs of one origin: take its rules once, then ask at nanoseconds each.
    let rules = abide.rules(&Origin::of(&recipes)?).await?;
    let urls: Vec<Url> = (0..50_000)
        .map(|number| {
            recipes.join(&format!("/{}/{number}.html", if number % 10 == 0 { "private" } else { "cakes" }))
        })
        .collect::<Result<_, _>>()?;
    let began = Instant::now();
    let allowed = urls.iter().filter(|url| rules.is_allowed(&Target::of(url))).count();
    let each = began.elapsed().as_nanos() / urls.len() as u128;
    println!("{allowed} of {} URLs are allowed; {each} ns each", urls.len());
    Ok(())
}
