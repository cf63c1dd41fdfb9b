//! Completions and the manual, for those who package the command.
//!
//! Both are written from `args`, so they name every option there is.

use std::io::Write;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Cli;
use crate::status::Status;

pub(crate) fn completions(shell: Shell) -> anyhow::Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "abide", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Status::Done)
}

/// One page: the command, then each of its calls and theirs, which have no pages of their own.
pub(crate) fn man() -> anyhow::Result<Status> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    let man = Man::new(command.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    sections(&command, &mut page)?;
    page.extend(ENDING.as_bytes());
    man.render_version_section(&mut page)?;
    std::io::stdout().lock().write_all(&page)?;
    Ok(Status::Done)
}

fn sections(command: &Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    for call in command.get_subcommands().filter(|call| call.get_name() != "help") {
        let man = Man::new(call.clone());
        let name = call.get_bin_name().unwrap_or(call.get_name());
        writeln!(page, ".SH \"{}\"", name.to_uppercase())?;
        let mut parts = Vec::new();
        man.render_description_section(&mut parts)?;
        man.render_synopsis_section(&mut parts)?;
        man.render_options_section(&mut parts)?;
        if call.get_after_long_help().is_some() {
            man.render_extra_section(&mut parts)?;
        }
        // What is a section in a page of its own is a part here.
        let text = String::from_utf8_lossy(&parts)
            .replace("\n.SH EXTRA", "\n.SH EXAMPLES")
            .replace("\n.SH ", "\n.SS ");
        page.write_all(text.strip_prefix(".SH DESCRIPTION\n").unwrap_or(&text).as_bytes())?;
        sections(call, page)?;
    }
    Ok(())
}

/// What concerns all calls.
const ENDING: &str = include_str!("manual.roff");
