//! `--save DIR`: numbered files, and an index that says what they are.
//!
//! Names are ours and not the site's: no URL can leave the directory, be too long, or hide another.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Usage;
use crate::crawl::Body;
use crate::fetch::{Answer, Line};

pub(crate) struct Save {
    directory: PathBuf,
    index: BufWriter<File>,
    count: u64,
}

/// One line of `index.jsonl`: that of `abide fetch --json`, and the file.
#[derive(Debug, Serialize)]
struct Entry<'a> {
    file: Option<String>,
    content_type: Option<&'a str>,
    /// Bytes in the file: fewer than `bytes` if the page is larger than what is kept.
    saved: usize,
    #[serde(flatten)]
    line: &'a Line,
}

impl Save {
    /// A directory that is there, or is made. An index that is there is not written over.
    pub(crate) fn to(directory: &Path) -> anyhow::Result<Self> {
        let index = directory.join("index.jsonl");
        let wrong = |error: std::io::Error| Usage(format!("{}: {error}", index.display()));
        fs::create_dir_all(directory).map_err(wrong)?;
        let file = File::create_new(&index).map_err(wrong)?;
        Ok(Self { directory: directory.to_owned(), index: BufWriter::new(file), count: 0 })
    }

    pub(crate) fn page(&mut self, answer: &Answer, body: &Body) -> anyhow::Result<()> {
        let file = if answer.line.outcome == "fetched" {
            self.count += 1;
            let name = format!("{:06}.{}", self.count, extension(answer.content_type.as_deref()));
            let path = self.directory.join(&name);
            fs::write(&path, &body.bytes).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
            Some(name)
        } else {
            None
        };
        let saved = if file.is_some() { body.bytes.len() } else { 0 };
        let entry = Entry { file, content_type: answer.content_type.as_deref(), saved, line: &answer.line };
        serde_json::to_writer(&mut self.index, &entry)?;
        self.index.write_all(b"\n")?;
        // Whoever is interrupted finds an index of all that is there.
        self.index.flush()?;
        Ok(())
    }
}

/// For those who open the file by hand.
fn extension(content_type: Option<&str>) -> &'static str {
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match essence.to_ascii_lowercase().as_str() {
        "text/html" | "application/xhtml+xml" => "html",
        "text/plain" => "txt",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/xml" | "text/xml" => "xml",
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/svg+xml" => "svg",
        "image/webp" => "webp",
        "text/css" => "css",
        "text/javascript" | "application/javascript" => "js",
        _ => "bin",
    }
}
