//! Random documents: one to eleven pieces, each of them something that matters to where a head ends.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A generator that gives the same documents on every machine (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}

fn piece(random: &mut Random, kind: &str) -> &'static str {
    static PIECES: LazyLock<BTreeMap<String, Vec<String>>> = LazyLock::new(|| {
        let mut pieces = BTreeMap::<_, Vec<_>>::new();
        for mut row in crate::rows(include_str!("../../vectors/pieces.tsv")) {
            pieces.entry(row.remove(0)).or_default().extend(row);
        }
        pieces
    });
    let pieces = &PIECES[kind];
    &pieces[random.below(pieces.len())]
}

/// A document, every meta in it with a content of its own.
pub(crate) fn document(random: &mut Random) -> String {
    let mut document = String::new();
    let mut metas = 0;
    let mut is_open = false;
    for _ in 0..=random.below(11) {
        match random.below(100) {
            0..33 => document.push_str(&meta(random, &mut metas)),
            33..38 => document.push_str(piece(random, "ender")),
            38..55 => document.push_str(piece(random, "element")),
            55..68 => document.push_str(piece(random, "tag")),
            68..78 => document.push_str(piece(random, "blank")),
            78..85 => document.push_str(piece(random, "comment")),
            85..93 => is_open |= !noscript(random, &mut metas, &mut document),
            93..98 => template(random, &mut metas, &mut document),
            // With scripting off, what is unfinished would swallow the end of a noscript around it (a known
            // deviation).
            _ if is_open => {}
            _ => document.push_str(piece(random, "unfinished")),
        }
    }
    document
}

pub(crate) fn meta(random: &mut Random, metas: &mut usize) -> String {
    *metas += 1;
    let n = *metas;
    match random.below(6) {
        0 => format!("<meta name=robots content=m{n}>"),
        1 => format!("<meta name=\"robots\" content=\"m{n}, noindex\"/>"),
        2 => format!("<META NAME='rob&#111;ts' CONTENT='m{n}&amp;&notit;' name=x content=y>"),
        3 => format!("<meta name='ROBOTS'content='m{n}'>"),
        4 => format!("<meta\nname\t=\n\"examplebot \"\r\n content = 'm{n}\n' >"),
        _ => format!("<meta/name=\"robots\"/content=\"m{n}\"/>"),
    }
}

/// Whether it was closed.
fn noscript(random: &mut Random, metas: &mut usize, document: &mut String) -> bool {
    document.push_str(piece(random, "noscript start"));
    for _ in 0..random.below(4) {
        match random.below(8) {
            0..3 => document.push_str(&meta(random, metas)),
            3 => document.push_str(piece(random, "noscript")),
            4 => document.push_str(piece(random, "blank")),
            5 => document.push_str(piece(random, "element")),
            6 => document.push_str(piece(random, "tag")),
            _ => document.push_str(piece(random, "comment")),
        }
    }
    let is_closed = random.below(8) > 0;
    if is_closed {
        document.push_str("</noscript>");
    }
    is_closed
}

fn template(random: &mut Random, metas: &mut usize, document: &mut String) {
    document.push_str("<template>");
    for _ in 0..random.below(4) {
        match random.below(6) {
            0..2 => document.push_str(&meta(random, metas)),
            2 => document.push_str(piece(random, "template")),
            3 => document.push_str(piece(random, "element")),
            4 => document.push_str(piece(random, "template tag")),
            _ => document.push_str(piece(random, "comment")),
        }
    }
    if random.below(8) > 0 {
        document.push_str("</template>");
    }
}
