//! Members of a field line: what lies between top-level commas (RFC 9651 §4.2.1).
//!
//! Members are parsed one by one, so that a bad one spoils no other, and a line that a limit cuts keeps those
//! that have ended.

use memchr::memchr3;

/// The pieces of a line, in order, untrimmed. There is always at least one. An unclosed string or parenthesis
/// swallows the rest; a closing parenthesis without an opening one is ignored.
pub(crate) fn pieces(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        // Most pieces are members without strings and parentheses.
        let plain = memchr3(b',', b'"', b'(', line).unwrap_or(line.len());
        let mut scan = SplitScan::default();
        let end = line.iter().skip(plain).position(|byte| scan.ends_piece(*byte));
        let end = end.map_or(line.len(), |end| plain.saturating_add(end));
        let (piece, after) = line.split_at(end);
        rest = after.get(1..);
        Some(piece)
    })
}

/// The part of a line that was cut which still counts: all up to its last top-level comma, that comma
/// excluded. `None` when there is none, so that no member is complete.
pub(crate) fn complete_members(line: &[u8]) -> Option<&[u8]> {
    let mut scan = SplitScan::default();
    let (last, _) = line.iter().enumerate().filter(|(_, byte)| scan.ends_piece(**byte)).last()?;
    line.get(..last)
}

/// Lower-cases ASCII letters outside strings, in place. Tokens and rules are compared without case, but the
/// keys of RFC 9651 (§3.1.2) are lower-case only.
pub(crate) fn lower_case_outside_strings(line: &mut [u8]) {
    let mut scan = SplitScan::default();
    for byte in line {
        if scan.step(*byte) {
            byte.make_ascii_lowercase();
        }
    }
}

/// The state of a scan over a line.
#[derive(Default)]
struct SplitScan {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl SplitScan {
    /// Takes a byte; whether it is a comma outside strings and parentheses.
    fn ends_piece(&mut self, byte: u8) -> bool {
        // Most bytes change nothing.
        let matters = self.in_string || matches!(byte, b',' | b'"' | b'(' | b')');
        matters && self.step(byte) && byte == b',' && self.depth == 0
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
