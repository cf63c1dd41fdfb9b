//! The small web of the examples, so that everything in the documentation can be tried without a network.
//!
//! It says how to reach it, and listens until it is interrupted.

use abide_examples::{Web, sites};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let web = Web::start().await?;
    println!("{} sites listen on {}: {}.", sites().len(), web.address(), sites().join(", "));
    println!("In another terminal, with the two options that lead their names here:\n");
    println!(
        "  abide crawl --allow-net {} --resolve '*:80:{}' http://bakery.example/",
        web.address().ip(),
        web.address()
    );
    tokio::signal::ctrl_c().await
}
