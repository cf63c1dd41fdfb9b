//! A crawler that gathers texts to train models, and takes what it is given.
//!
//! Sites speak of AI in many places. All of them are read where the page is fetched; what to do when nothing
//! is said is your decision: here, nothing said means yes. See docs/ai-training.md.

use abide::{Abide, Denied, DeniedKind, Preference, ResponseExt, Usage};
use abide_examples::{Web, plain_client};
use reqwest_middleware::ClientWithMiddleware;

/// Why a page is left out.
enum No {
    /// robots.txt disallows the page, or its use: it was never asked for.
    NotAskedFor(String),
    /// It was asked for, and its site does not want it used so, or what it says is not known.
    Stated(String),
}

/// The text of a page that may be used for training, as far as its site has said.
async fn for_training(client: &ClientWithMiddleware, url: &str) -> anyhow::Result<Result<String, No>> {
    let page = match client.get(url).send().await {
        Ok(page) => page,
        Err(error) => match Denied::find(&error).as_ref().map(Denied::kind) {
            Some(DeniedKind::Disallowed { verdict }) => {
                let rule = verdict.rule().map_or_else(String::new, |rule| rule.to_string());
                return Ok(Err(No::NotAskedFor(rule)));
            }
            Some(DeniedKind::Purpose { source, .. }) => return Ok(Err(No::NotAskedFor(source.to_string()))),
            _ => return Err(error.into()),
        },
    };
    let training = page.allows_purpose();
    if matches!(training.preference(), Preference::Disallow | Preference::Unknown) {
        return Ok(Err(No::Stated(training.to_string())));
    }
    // Directives to one application, by its name: only you know what yours mean.
    let directives = page.fetch_info().and_then(|info| info.app_directives());
    let excerpts = directives.as_ref().and_then(|all| all.get("exampletrainer", "excerpts")?.as_bool());
    let no_excerpts = excerpts == Some(false);
    let text = page.text().await?;
    Ok(Ok(if no_excerpts { format!("(never quote) {text}") } else { text }))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let web = Web::start().await; // in place of the real web
    let builder =
        Abide::builder("ExampleTrainer").user_agent("ExampleTrainer/1.0 (+https://example.com/bot)");
    // This web has no other readers, so it is asked faster than a second apart.
    let pace = abide::pacing::PacePolicy::default().danger_min_delay(std::time::Duration::from_millis(50));
    let client = web.stand_in(builder.pace(pace).purpose(Usage::TrainAi)).build_client(plain_client())?;

    let columns = ["field", "signal", "tags", "meta", "mining", "open"].map(|name| format!("columns/{name}"));
    let pages = ["archive/1", "news/1", "poems/1"].map(str::to_owned).into_iter().chain(columns);
    for page in pages {
        match for_training(&client, &format!("http://press.example/{page}.html")).await? {
            Ok(text) if text.starts_with("(never quote)") => {
                println!("{page}: taken, and never to be quoted")
            }
            Ok(text) => println!("{page}: taken, {} bytes", text.len()),
            Err(No::NotAskedFor(why)) => println!("{page}: not asked for: {why}"),
            Err(No::Stated(answer)) => println!("{page}: left out: {answer}"),
        }
    }
    Ok(())
}
