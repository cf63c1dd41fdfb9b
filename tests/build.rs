//! Writes one module for each Rust block of the pages that users read, so that `tests/snippets` compiles them
//! as they are displayed.
//!
//! A block that is a program stands as it is. The lines of any other block become the body of an `async fn`,
//! and see nothing that they do not define or import: code hosts display rustdoc's hidden lines (`# …`), so
//! no page may have any. Blocks marked `rust` are run, blocks marked `rust,no_run` are compiled.

#![allow(clippy::restriction, reason = "a page that cannot be read ends the build")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("..");
    let mut code = String::new();
    for page in pages(&root) {
        println!("cargo::rerun-if-changed={}", page.display());
        let name = page.strip_prefix(&root).unwrap().display().to_string();
        for block in blocks(&std::fs::read_to_string(&page).unwrap()) {
            write_block(&mut code, &name, &block);
        }
    }
    std::fs::write(Path::new(&std::env::var("OUT_DIR").unwrap()).join("snippets.rs"), code).unwrap();
}

/// README.md, the pages of `docs/`, and the README of each crate.
fn pages(root: &Path) -> Vec<PathBuf> {
    let files = |folder: PathBuf| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> =
        files(root.join("docs")).filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    pages.extend(
        files(root.join("crates")).map(|folder| folder.join("README.md")).filter(|path| path.exists()),
    );
    pages.push(root.join("README.md"));
    pages.sort();
    println!("cargo::rerun-if-changed={}", root.join("docs").display());
    pages
}

/// Its programs take a URL, so the tests call their function `crawl` with one.
const TUTORIAL: &str = "docs/tutorial.md";

struct Block {
    line: usize,
    run: bool,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let run = match line.strip_prefix("```") {
            Some("rust") => true,
            Some("rust,no_run") => false,
            _ => continue,
        };
        let text = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
        found.push(Block {
            line: number + 1,
            run,
            text: text.fold(String::new(), |text, line| text + line + "\n"),
        });
    }
    found
}

fn write_block(code: &mut String, page: &str, Block { line, run, text }: &Block) {
    let name: String =
        page.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    if let Some(hidden) = text.lines().position(|line| line == "#" || line.starts_with("# ")) {
        let place =
            format!("{page}:{}: code hosts display this line, which rustdoc would hide", line + 1 + hidden);
        writeln!(code, "compile_error!({place:?});").unwrap();
    }
    let program = text.contains("fn main()");
    writeln!(code, "/// {page}:{line}").unwrap();
    writeln!(code, "mod {name}_{line} {{").unwrap();
    match program {
        true => code.push_str(text),
        false => {
            code.push_str("async fn shown() -> Result<(), Box<dyn std::error::Error>> {\n");
            code.push_str(text);
            code.push_str("\nOk(())\n}\n");
        }
    }
    if page == TUTORIAL && program {
        writeln!(code, "#[test]\nfn runs() {{ super::context::crawls({line}, crawl); }}").unwrap();
    } else if *run {
        let call = if program { "super::context::succeeds(main());" } else { "super::context::run(shown);" };
        writeln!(code, "#[test]\nfn runs() {{ {call} }}").unwrap();
    }
    code.push_str("}\n");
}
