//! The crawl of `crawl-comparison.sh` with the crate `spider`, which finds the pages by their links:
//! `spider HOST:PORT...`.

use spider::tokio;
use spider::website::Website;

const HOSTS_AT_ONCE: usize = 32;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let hosts: Vec<String> = std::env::args().skip(1).collect();
    let workers: Vec<_> = (0..HOSTS_AT_ONCE)
        .map(|worker| {
            let hosts: Vec<String> = hosts.iter().skip(worker).step_by(HOSTS_AT_ONCE).cloned().collect();
            tokio::spawn(async move {
                let mut pages = 0;
                for host in hosts {
                    pages += crawl(&host).await;
                }
                pages
            })
        })
        .collect();
    let mut pages = 0;
    for worker in workers {
        pages += worker.await.expect("no worker panics");
    }
    println!("{pages}");
}

async fn crawl(host: &str) -> usize {
    let mut site = Website::new(&format!("http://{host}/page/0"));
    site.with_respect_robots_txt(true).with_user_agent(Some("ExampleBot/1.0 (+https://example.com/bot)"));
    site.crawl().await;
    site.get_links().len()
}
