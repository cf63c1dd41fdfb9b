//! Any document is scanned: what is found does not depend on how its bytes are split, nothing panics whatever the limits,
//! and a scan of the whole document finds every meta that the scan of the head does.

use abide_permissions::{Head, HeadScanner, MetaScope, Progress, ReadOptions};

const TYPES: [Option<&str>; 4] = [
    None,
    Some("text/html"),
    Some("text/html; charset=utf-16"),
    Some("application/xhtml+xml; charset=iso-2022-jp"),
];

fn scan(options: &ReadOptions, content_type: Option<&str>, document: &[u8], size: usize) -> Head {
    let mut scanner = HeadScanner::new(options, content_type);
    for chunk in document.chunks(size) {
        if scanner.feed(chunk) == Progress::Done {
            break;
        }
    }
    scanner.finish()
}

/// What the first line of this file says.
pub fn run(bytes: &[u8]) {
    let Some((&choice, document)) = bytes.split_first() else { return };
    let content_type = TYPES[usize::from(choice) % TYPES.len()];
    let size = usize::from(choice) / TYPES.len() + 1;
    let options =
        ReadOptions::new("ExampleBot".parse().expect("a token")).with_head_limit(8192).expect("the least");

    let whole = scan(&options, content_type, document, usize::MAX);
    let split = scan(&options, content_type, document, size);
    assert_eq!(whole.metas(), split.metas());
    assert_eq!(whole.noscript_metas(), split.noscript_metas());
    assert_eq!(whole.end(), split.end());
    assert!(whole.metas().iter().all(|meta| !meta.name().is_empty()));
    assert!(whole.bytes() <= 8192);

    let tight = options.clone().with_memory_limit(16 * 1024).expect("the least");
    let _ = scan(&tight, content_type, document, size);

    let everywhere = scan(&options.with_meta_scope(MetaScope::Document), content_type, document, size);
    let mut found = everywhere.metas().iter();
    assert!(
        whole.metas().iter().all(|meta| found.any(|other| other == meta)),
        "the head is part of the document"
    );
}
