//! Members of a field line: what lies between top-level commas (RFC 9651 §4.2.1).

/// The pieces of a line, in order, untrimmed. There is always at least one.
pub(crate) struct Pieces<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Pieces<'a> {
    pub(crate) const fn of(line: &'a [u8]) -> Self {
        Self { rest: Some(line) }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.rest.take()?;
        let Some((piece, rest)) = top_level_comma(line).and_then(|at| line.split_at_checked(at)) else {
            return Some(line);
        };
        self.rest = rest.split_first().map(|(_, rest)| rest);
        Some(piece)
    }
}

/// Where the first comma stands that is neither in a string nor in parentheses. An unclosed one swallows the rest; a
/// closing parenthesis without an opening one is ignored.
fn top_level_comma(line: &[u8]) -> Option<usize> {
    let mut scan = Scan::default();
    let mut at = 0_usize;
    loop {
        if scan.is_at_top() {
            let matters = |byte: &u8| matches!(byte, b',' | b'"' | b'(');
            at = at.saturating_add(line.get(at..)?.iter().position(matters)?);
        }
        let byte = *line.get(at)?;
        if scan.step(byte) && byte == b',' && scan.depth == 0 {
            return Some(at);
        }
        at = at.saturating_add(1);
    }
}

/// The part of a line that was cut which still counts: all up to its last top-level comma, that comma excluded.
/// `None` when there is none, so that no member is complete.
pub(crate) fn complete_members(line: &[u8]) -> Option<&[u8]> {
    let mut scan = Scan::default();
    let mut last = None;
    for (at, byte) in line.iter().enumerate() {
        if scan.step(*byte) && *byte == b',' && scan.depth == 0 {
            last = Some(at);
        }
    }
    line.get(..last?)
}

/// Lower-cases ASCII letters outside strings, in place. Tokens and rules are compared without case, but the keys of
/// RFC 9651 are lower-case only (X2).
pub(crate) fn lower_case_outside_strings(line: &mut [u8]) {
    let mut scan = Scan::default();
    for byte in line {
        if scan.step(*byte) {
            byte.make_ascii_lowercase();
        }
    }
}

/// Where in a line we are.
#[derive(Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// Whether neither a string nor a parenthesis is open.
    const fn is_at_top(&self) -> bool {
        !self.in_string && self.depth == 0
    }

    /// Takes a byte; whether it lies outside strings.
    fn step(&mut self, byte: u8) -> bool {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'(' => self.depth = self.depth.saturating_add(1),
            b')' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(line: &str) -> Vec<&str> {
        Pieces::of(line.as_bytes()).map(|piece| std::str::from_utf8(piece).expect("cut at commas")).collect()
    }

    #[test]
    fn commas_in_strings_and_parentheses_end_no_member() {
        for (line, expected) in [
            ("", vec![""]),
            ("a", vec!["a"]),
            ("a,b", vec!["a", "b"]),
            (",", vec!["", ""]),
            ("a, ,b,", vec!["a", " ", "b", ""]),
            (r#"a;x="1,2",b"#, vec![r#"a;x="1,2""#, "b"]),
            (r#"a;x="1\",2",b"#, vec![r#"a;x="1\",2""#, "b"]),
            ("(a, b), c", vec!["(a, b)", " c"]),
            ("((a, b), c), d", vec!["((a, b), c)", " d"]),
            ("a), b", vec!["a)", " b"]),
            ("(a, b", vec!["(a, b"]),
            (r#""a, b"#, vec![r#""a, b"#]),
            (r#"(")", a), b"#, vec![r#"(")", a)"#, " b"]),
        ] {
            assert_eq!(pieces(line), expected, "{line}");
        }
    }

    #[test]
    fn a_cut_line_keeps_what_a_comma_has_ended() {
        for (line, expected) in [
            ("", None),
            ("*;noindex", None),
            ("*;noindex,", Some("*;noindex")),
            ("a,b,c", Some("a,b")),
            (r#"a,b;x="1,"#, Some("a")),
            ("a,(b,", Some("a")),
        ] {
            assert_eq!(complete_members(line.as_bytes()), expected.map(str::as_bytes), "{line}");
        }
    }

    #[test]
    fn case_is_folded_outside_strings_only() {
        let mut line = *br#"*;NoIndex;X="Ab\"C";Y, ExampleBot"#;
        lower_case_outside_strings(&mut line);
        assert_eq!(&line, br#"*;noindex;x="Ab\"C";y, examplebot"#);
    }
}
