//! Completions and the manual, for those who package the command.

use std::io::Write;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::Status;
use crate::args::{Cli, CompletionsArgs};

pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "abide", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Status::Done)
}

/// One page: the command, then each of its calls, which have no pages of their own.
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
    let is_ours = |call: &&Command| !call.is_hide_set() && call.get_name() != "help";
    for call in command.get_subcommands().filter(is_ours) {
        section(call, &mut page)?;
    }
    page.extend(ENDING.as_bytes());
    man.render_version_section(&mut page)?;
    std::io::stdout().lock().write_all(&page)?;
    Ok(Status::Done)
}

fn section(call: &Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    let man = Man::new(call.clone());
    writeln!(page, ".SH \"ABIDE {}\"", call.get_name().to_uppercase())?;
    let mut parts = Vec::new();
    man.render_description_section(&mut parts)?;
    man.render_synopsis_section(&mut parts)?;
    man.render_options_section(&mut parts)?;
    man.render_extra_section(&mut parts)?;
    // What is a section in a page of its own is a part here.
    let text = String::from_utf8_lossy(&parts).replace("\n.SH ", "\n.SS ");
    page.write_all(text.strip_prefix(".SH DESCRIPTION\n").unwrap_or(&text).as_bytes())
}

/// What concerns all calls.
const ENDING: &str = r#".SH "EXIT STATUS"
.TP
0
Done. Of a crawl: done as the sites allow.
.TP
1
Something was denied, deferred or failed, or a line of a batch was bad. Of a crawl: something failed, was refused or deferred, or a robots.txt
can't be fetched; \-\-fail\-on adds to that.
.TP
2
Wrong usage. Nothing has been asked or answered.
.TP
130, 143
Ended by Ctrl\-C (SIGINT) or SIGTERM.
.SH ENVIRONMENT
.TP
ABIDE_AGENT, ABIDE_USER_AGENT
Stand for \-\-agent and \-\-user\-agent.
.TP
ABIDE_CONFIG
Stands for \-\-config; if empty, no file is read.
.TP
HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY
Proxies, and hosts that are asked directly; also in lower case.
.TP
NO_COLOR, CLICOLOR_FORCE
No colours, or colours also where there is no terminal.
.SH FILES
.TP
abide.toml
Options by their long names, in the working directory.
.TP
$XDG_CONFIG_HOME/abide/abide.toml, ~/.config/abide/abide.toml
The same for a user, if there is none in the working directory.
.TP
STORE.HASH.frontier
What is left of a crawl with \-\-store redb:STORE, and what was counted so far.
"#;
