//! The small web of the examples, so that everything in the documentation can be tried without a network.
//!
//! It says how to reach it, and listens until it is interrupted.

use abide_examples::{Web, sites};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let web = Web::start().await;
    println!("{} sites listen on {}: {}.", sites().len(), web.address(), sites().join(", "));
    println!(
        "Paste this into the shell of another terminal, and every `abide` command of the documentation works there\n\
         (`cargo install --path crates/abide-cli` puts `abide` on your path):\n"
    );
    println!("  {}", web.shell_function());
    tokio::signal::ctrl_c().await
}
