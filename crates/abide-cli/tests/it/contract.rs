//! Sentences of the contract that concern several calls. `docs/dev/command-contract.md` has all sentences and their tests.

use std::time::Duration;

use abide_tests::{Reply, Server};
use futures_util::future::join_all;

use crate::online;

#[tokio::test]
async fn concurrency_limits_requests_over_all_hosts() {
    let run = async |call: &str, most: usize, millis: u64| {
        let server = Server::start(move |_| Reply::html("<p>x").after(Duration::from_millis(millis))).await;
        let hosts = "a.example/x b.example/x c.example/x d.example/x";
        online(&server, format!("{call} --concurrency {most} {hosts}")).await;
        let log = server.log();
        let under_way = |at| log.iter().filter(|seen| seen.at <= at && at < seen.answered).count();
        let at_a_time = log.iter().map(|seen| under_way(seen.at)).max().unwrap();
        assert!(at_a_time <= most && (most == 1 || at_a_time > 1), "{call}, {most}: {at_a_time}");
    };
    let calls = ["check", "fetch", "crawl", "explain"];
    join_all(calls.iter().flat_map(|call| [run(call, 1, 100), run(call, 4, 1000)])).await;
}
