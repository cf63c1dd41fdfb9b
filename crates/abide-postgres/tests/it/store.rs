//! The store that the processes of `crew` share.

use std::net::SocketAddr;
use std::time::Duration;

use abide_postgres::Store;
pub(crate) use abide_tests::Postgres as Server;

use crate::support::age;

pub(crate) fn start() -> Option<Server> {
    start_with(&[])
}

/// With these settings, too.
pub(crate) fn start_with(settings: &[&str]) -> Option<Server> {
    let server = Server::start(settings)?;
    server.ask(&Store::builder(&server.url()).sql().unwrap());
    age(&server);
    Some(server)
}

pub(crate) const IS_DURABLE: bool = true;

pub(crate) fn url_at(address: SocketAddr) -> String {
    format!("postgres://postgres@{address}/postgres")
}

pub(crate) fn open(url: &str, patience: Duration) -> Store {
    Store::builder(url).command_timeout(patience).open().unwrap()
}
