//! Completions and the manual, for those who package the command.

use std::io::Write;

use clap::{Command, CommandFactory};

use crate::Status;
use crate::args::{Cli, CompletionsArgs};

pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "abide", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Status::Done)
}

/// One page: the command, then each of its calls.
pub(crate) fn man() -> anyhow::Result<Status> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for call in command.get_subcommands().filter(|call| !call.is_hide_set()) {
        section(call, &mut page)?;
    }
    std::io::stdout().lock().write_all(&page)?;
    Ok(Status::Done)
}

fn section(call: &Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    let man = clap_mangen::Man::new(call.clone());
    writeln!(page, ".SH \"ABIDE {}\"", call.get_name().to_uppercase())?;
    let mut description = Vec::new();
    man.render_description_section(&mut description)?;
    man.render_options_section(&mut description)?;
    // What is a section in a page of its own is a part here.
    let text = String::from_utf8_lossy(&description).replace("\n.SH ", "\n.SS ");
    page.write_all(text.strip_prefix(".SH DESCRIPTION\n").unwrap_or(&text).as_bytes())
}
