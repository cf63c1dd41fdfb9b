//! A crawl of many small sites without delay, as it is written with abide, and by hand with reqwest and
//! `texting_robots`.
//!
//! `docs/dev/crawl-comparison.sh` measures them beside other crawlers.

use std::sync::Arc;

use reqwest_middleware::ClientWithMiddleware;
use texting_robots::Robot;
use tokio::task::JoinSet;

/// Pages of each host: `/page/0` and so on.
pub(crate) const PAGES: usize = 100;
/// Hosts that are crawled at the same time, one page after the other.
const HOSTS_AT_ONCE: usize = 32;

/// Crawls these hosts, and returns how many pages there were.
pub(crate) async fn crawl(client: Client, hosts: Vec<String>) -> usize {
    let (client, hosts) = (Arc::new(client), Arc::new(hosts));
    let mut workers = JoinSet::new();
    for worker in 0..HOSTS_AT_ONCE {
        let (client, hosts) = (Arc::clone(&client), Arc::clone(&hosts));
        workers.spawn(async move {
            let mut pages = 0;
            for host in hosts.iter().skip(worker).step_by(HOSTS_AT_ONCE) {
                pages += match &*client {
                    Client::Abide(client) => with_abide(client, host).await,
                    Client::Reqwest(client) => by_hand(client, host).await,
                };
            }
            pages
        });
    }
    workers.join_all().await.into_iter().sum()
}

pub(crate) enum Client {
    Abide(ClientWithMiddleware),
    Reqwest(reqwest::Client),
}

async fn with_abide(client: &ClientWithMiddleware, host: &str) -> usize {
    let mut pages = 0;
    for number in 0..PAGES {
        let page = client.get(format!("http://{host}/page/{number}")).send().await.expect("an answer");
        pages += usize::from(!page.text().await.expect("a text").is_empty());
    }
    pages
}

async fn by_hand(client: &reqwest::Client, host: &str) -> usize {
    let robots = client.get(format!("http://{host}/robots.txt")).send().await.expect("an answer");
    let robots = Robot::new("ExampleBot", &robots.bytes().await.expect("a body")).expect("rules");
    let mut pages = 0;
    for number in 0..PAGES {
        let url = format!("http://{host}/page/{number}");
        if robots.allowed(&url) {
            let page = client.get(url).send().await.expect("an answer");
            pages += usize::from(!page.text().await.expect("a text").is_empty());
        }
    }
    pages
}
