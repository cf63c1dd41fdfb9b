//! The store that the processes of `crew` share, and what only Redis can suffer.

use std::net::SocketAddr;
use std::time::Duration;

use abide_redis::Store;
pub(crate) use abide_tests::Redis as Server;
use tokio::join;

use crate::crew::faults::{Fault, both};

pub(crate) fn start() -> Option<Server> {
    Server::start()
}

/// Not without a file.
pub(crate) const IS_DURABLE: bool = false;

pub(crate) fn url_at(address: SocketAddr) -> String {
    format!("redis://{address}/")
}

pub(crate) fn open(url: &str, patience: Duration) -> Store {
    Store::builder(url).command_timeout(patience).open().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_file_and_one_that_is_flushed_shorten_no_delay() {
    let with_file = || Server::start_new(&["--appendonly", "yes"]).inspect(Server::age);
    let flushed = Fault::at_once("flushed", |server| server.ask::<()>(&["FLUSHALL"]));
    let killed = Fault::killed("killed, with a file");
    join!(both(with_file, killed), both(start, flushed.keeping_records(false)));
}
