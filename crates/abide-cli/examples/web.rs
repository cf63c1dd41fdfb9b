//! The small web of the examples, so that everything in the documentation can be tried without a network.
//!
//! It says how to reach it, and listens until it is interrupted.

use abide_examples::{Web, sites};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let web = Web::start().await?;
    println!("{} sites listen on {}: {}.", sites().len(), web.address(), sites().join(", "));
    println!(
        "Paste this into the shell of another terminal, and every `abide` command of the documentation works there:\n"
    );
    println!(
        "  abide() {{ case $1 in check|fetch|crawl|explain) command abide \"$@\" --allow-net {} --resolve '*:80:{}';; \
         *) command abide \"$@\";; esac; }}",
        web.address().ip(),
        web.address()
    );
    tokio::signal::ctrl_c().await
}
