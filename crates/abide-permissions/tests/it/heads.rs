//! Which metas are in the head: the table `vectors/heads.tsv`, and html5ever as the reference.

use abide_permissions::Head;
use abide_permissions::testing::strays;

use crate::support::generate::{self, Random};
use crate::{options, rows, support};

fn scan(document: &[u8], chunk: usize) -> Head {
    crate::scan(&options(), document, chunk)
}

fn pairs(head: &Head) -> Vec<(String, String)> {
    head.metas().iter().map(|meta| (meta.name().to_owned(), meta.content().to_owned())).collect()
}

/// So many metas behind the head are kept of one page.
const STRAYS_MAX: usize = 64;

/// Checks that the scan of the whole document finds the same head, and returns what html5ever has anywhere
/// and the scan has not.
fn missed_behind_the_head(document: &str, head: &Head) -> Vec<(String, String)> {
    let whole = options().with_whole_document(true);
    let [all, split] = [usize::MAX, 3].map(|chunk| crate::scan(&whole, document.as_bytes(), chunk));
    assert_eq!((pairs(&all), all.noscript_metas()), (pairs(head), head.noscript_metas()), "{document:?}");
    assert_eq!(all.end(), head.end(), "{document:?}");
    let found = |head: &Head| -> Vec<_> {
        let metas = head.metas().iter().chain(head.noscript_metas()).chain(strays(head));
        metas.map(|meta| (meta.name().to_owned(), meta.content().to_owned())).collect()
    };
    assert_eq!(found(&all), found(&split), "chunks of 3: {document:?}");
    let at_hand = found(head);
    assert!(at_hand.iter().all(|meta| found(&all).contains(meta)), "at hand: {document:?}");
    if strays(&all).count() == STRAYS_MAX {
        return Vec::new();
    }
    let anywhere = [true, false].map(|scripting| support::metas_anywhere(document, scripting));
    anywhere.into_iter().flatten().filter(|meta| !found(&all).contains(meta)).collect()
}

#[test]
fn every_row_of_the_table_agrees_with_it_and_with_html5ever() {
    for row in rows(include_str!("../vectors/heads.tsv")) {
        for begin in ["", "<!x>"] {
            let document = format!("{begin}{}", row[0].replace('M', "<meta name=robots content=noindex>"));
            for chunk in [1, 3, usize::MAX] {
                let found = pairs(&scan(document.as_bytes(), chunk));
                assert_eq!(!found.is_empty(), row[1] == "yes", "{document}");
                assert_eq!(found, support::metas(&document, true), "{document}");
            }
        }
    }
}

/// How many random documents are tried. `ABIDE_HEAD_DOCUMENTS=1000000` for a long run, `ABIDE_HEAD_SEED` for
/// others.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn random_documents_have_the_metas_that_html5ever_finds() {
    let documents = setting("ABIDE_HEAD_DOCUMENTS", 8_000);
    let seed = setting("ABIDE_HEAD_SEED", 1);
    let mut random = Random::new(seed);
    let (mut with_metas, mut with_noscript_metas, mut differences, mut missing) = (0, 0, 0, 0);
    let (mut deviations, mut with_strays) = (0, 0);
    for _ in 0..documents {
        let document = generate::document(&mut random);
        let whole = scan(document.as_bytes(), usize::MAX);
        let expected = support::metas(&document, true);
        if pairs(&whole) != expected {
            count(&document, &mut differences, &mut deviations);
            println!("difference: {document:?}\n  ours {:?}\n  html5ever {expected:?}", pairs(&whole));
        }
        for chunk in [1, 3] {
            let head = scan(document.as_bytes(), chunk);
            assert_eq!(pairs(&head), pairs(&whole), "chunks of {chunk}: {document:?}");
            assert_eq!(head.noscript_metas(), whole.noscript_metas(), "chunks of {chunk}: {document:?}");
            assert_eq!(head.end(), whole.end(), "chunks of {chunk}: {document:?}");
        }
        let mut union = pairs(&whole);
        union.extend(whole.noscript_metas().iter().map(|m| (m.name().to_owned(), m.content().to_owned())));
        let unscripted = support::metas(&document, false);
        if let Some(lost) = unscripted.iter().find(|meta| !union.contains(meta)) {
            count(&document, &mut missing, &mut deviations);
            println!("missing {lost:?}: {document:?}\n  ours {union:?}");
        }
        let missed = missed_behind_the_head(&document, &whole);
        if !missed.is_empty() {
            count(&document, &mut missing, &mut deviations);
            println!("missing {missed:?} behind the head: {document:?}");
        }
        with_strays += u64::from(strays(&whole).next().is_some());
        with_metas += u64::from(!expected.is_empty());
        with_noscript_metas += u64::from(!whole.noscript_metas().is_empty());
    }
    println!(
        "{documents} documents, {with_metas} with metas, {with_noscript_metas} with metas in noscript: \
         {differences} differ, {missing} miss a meta that exists with scripting off, \
         {deviations} with templates deviate"
    );
    assert!(with_metas * 3 > documents && with_noscript_metas * 50 > documents, "the documents are poor");
    assert!(with_strays * 6 > documents, "{with_strays} have metas behind the head");
    assert!(differences == 0 && missing == 0, "{differences} differ, {missing} miss");
    assert!(deviations * 1000 <= documents, "{deviations} deviate");
}

/// Documents in which a template meets a noscript are a known deviation, rare even among these.
fn count(document: &str, others: &mut u64, deviations: &mut u64) {
    if document.contains("<template") { *deviations += 1 } else { *others += 1 }
}

fn html5lib_documents() -> impl Iterator<Item = &'static str> {
    include_str!("../vectors/html5lib/documents.dat")
        .split("#data\n")
        .skip(1)
        .map(|text| &text[..text.len() - 1])
}

/// Where a tag begins or ends.
fn tag_boundaries(document: &str) -> Vec<usize> {
    let mut places: Vec<usize> = document.match_indices('<').map(|(at, _)| at).collect();
    places.extend(document.match_indices('>').map(|(at, _)| at + 1));
    places.extend([0, document.len()]);
    places.sort_unstable();
    places.dedup();
    places
}

#[test]
fn a_meta_in_html5lib_documents_is_where_html5ever_puts_it() {
    let (mut documents, mut variants) = (0, 0);
    let (mut differences, mut missed) = (Vec::new(), Vec::new());
    for document in html5lib_documents() {
        documents += 1;
        let places = tag_boundaries(document);
        let mut everywhere = document.to_owned();
        for (n, at) in places.iter().enumerate().rev() {
            everywhere.insert_str(*at, &format!("<meta name=probe content={n}>"));
        }
        let single = places.iter().map(|at| {
            let (before, after) = document.split_at(*at);
            format!("{before}<meta name=probe content=here>{after}")
        });
        for variant in single.chain([everywhere]) {
            variants += 1;
            let head = scan(variant.as_bytes(), usize::MAX);
            // One document has a meta at every place, which is enough to see what is behind the head.
            if variant.contains("content=0>") {
                let first = missed_behind_the_head(&variant, &head).pop();
                missed.extend(first.map(|meta| (meta, variant.clone())));
            }
            if pairs(&head) != support::metas(&variant, true) {
                differences.push(variant);
            }
        }
    }
    for variant in &differences {
        println!(
            "difference: {variant:?}\n  {:?}\n  {:?}",
            pairs(&scan(variant.as_bytes(), 9)),
            support::metas(variant, true)
        );
    }
    assert!(documents > 1_500 && variants > 11_000, "{documents} documents, {variants} variants");
    // A `template` of svg within a template of the head: a known deviation.
    let is_deviation = |variant: &str| variant.starts_with("<template><svg><foo><template>");
    differences.retain(|variant| !is_deviation(variant));
    missed.retain(|(_, variant): &(_, String)| !is_deviation(variant));
    assert_eq!(differences.len(), 0, "of {variants} variants");
    assert!(missed.is_empty(), "{} behind the head: {missed:#?}", missed.len());
}
