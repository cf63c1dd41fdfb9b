//! Random documents: one to eleven pieces, each of them something that matters to where a head ends.

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

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// A document, every meta in it with a content of its own.
pub(crate) fn document(random: &mut Random) -> String {
    let mut document = String::new();
    let mut metas = 0;
    let mut is_open = false;
    for _ in 0..=random.below(11) {
        match random.below(100) {
            0..33 => document.push_str(&meta(random, &mut metas)),
            33..38 => document.push_str(random.pick(&ENDERS)),
            38..55 => document.push_str(random.pick(&ELEMENTS)),
            55..68 => document.push_str(random.pick(&TAGS)),
            68..78 => document.push_str(random.pick(&BLANKS)),
            78..85 => document.push_str(random.pick(&COMMENTS)),
            85..93 => is_open |= !noscript(random, &mut metas, &mut document),
            93..98 => template(random, &mut metas, &mut document),
            // With scripting off, what is unfinished would swallow the end of a noscript around it (a known deviation).
            _ if is_open => {}
            _ => document.push_str(random.pick(&UNFINISHED)),
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
    document.push_str(random.pick(&["<noscript>", "<NOSCRIPT a='>'>", "<noscript/>"]));
    for _ in 0..random.below(4) {
        match random.below(8) {
            0..3 => document.push_str(&meta(random, metas)),
            3 => document.push_str(random.pick(&IN_NOSCRIPT)),
            4 => document.push_str(random.pick(&BLANKS)),
            5 => document.push_str(random.pick(&ELEMENTS)),
            6 => document.push_str(random.pick(&TAGS)),
            _ => document.push_str(random.pick(&COMMENTS)),
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
            2 => document.push_str(random.pick(&[
                "x",
                "<p>",
                "<div></div>",
                "<template>",
                "</template>",
                "&nbsp;",
            ])),
            3 => document.push_str(random.pick(&ELEMENTS)),
            4 => document
                .push_str(random.pick(&["</head>", "</body>", "</html>", "</br>", "<tr>", "<td>", "<body>"])),
            _ => document.push_str(random.pick(&COMMENTS)),
        }
    }
    if random.below(8) > 0 {
        document.push_str("</template>");
    }
}

const ENDERS: [&str; 21] = [
    "text",
    "&nbsp;",
    "\0",
    "<img>",
    "<svg></svg>",
    "<math><mi>",
    "<frameset>",
    "<iframe></iframe>",
    "<textarea></textarea>",
    "<select>",
    "<>",
    "</",
    "<",
    "<body>",
    "<div>",
    "<p>x</p>",
    "<plaintext>",
    "&#33;",
    "&Tab",
    "<x-y/>",
    "<noembed></noembed>",
];

const ELEMENTS: [&str; 16] = [
    "<title>t</title>",
    "<title><b></title>",
    "<style>a{}</style>",
    "<style></head></style>",
    "<script></script>",
    "<script>'<meta name=robots content=no>'</script>",
    "<script><!--<script></script>--></script>",
    "<noframes><p></noframes>",
    "<link>",
    "<link rel='x' href=\"y\">",
    "<base>",
    "<base/>",
    "<basefont>",
    "<bgsound>",
    "<meta charset=utf-8>",
    "<meta name='' content=x>",
];

const TAGS: [&str; 24] = [
    "<html>",
    "<html lang=en>",
    "<head>",
    "<head a=b>",
    "</head>",
    "</HEAD\n>",
    "</head a='>'>",
    "</head a=b\">",
    "</p>",
    "</title>",
    "</script>",
    "</style>",
    "</template>",
    "</noscript>",
    "</meta>",
    "</link>",
    "</x-foo>",
    "</>",
    "</foo bar='</body>'>",
    "<!doctype html>",
    "<!DOCTYPE html PUBLIC \"</body>\">",
    "</body>",
    "</html>",
    "</br>",
];

const BLANKS: [&str; 13] = [
    " ",
    "\n",
    "\t\r\n",
    "\x0c",
    "&#32;",
    "&#x9;",
    "&#10",
    "&#x000d;",
    "&Tab;",
    "&NewLine;",
    " &#32 ",
    "  \n\n",
    "&#12;&#13;",
];

const COMMENTS: [&str; 12] = [
    "<!-- c -->",
    "<!---->",
    "<!-->",
    "<!--->",
    "<!--</head>-->",
    "<!-- <meta name=robots content=no> -->",
    "<!--x--!>",
    "<!x>",
    "<?php ?>",
    "<![CDATA[x]>",
    "</ x>",
    "</3>",
];

/// Nothing that stays open, for the same reason.
const IN_NOSCRIPT: [&str; 9] =
    ["text", "<img>", "<noscript>", "<html>", "<head>", "</head>", "</br>", "<title>t</title>", "<p>"];

const UNFINISHED: [&str; 6] =
    ["<!--", "<meta name=robots content=no", "<title>", "<script>", "<style>", "</head"];
