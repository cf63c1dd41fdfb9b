//! What a verdict costs, in steps, for the tests that hold it to a bound. Nothing is counted outside of them.
//!
//! A bound in steps holds on every machine, where one in time would depend on how busy it is.

/// So many steps are taken: bytes that a pattern is matched against, words of bytes that are compared, or
/// places that are looked at.
#[inline(always)]
pub(crate) fn count(steps: usize) {
    #[cfg(test)]
    tests::STEPS.with(|sum| sum.set(sum.get().saturating_add(steps)));
    let _ = steps;
}

#[cfg(test)]
#[path = "../benches/workload.rs"]
mod workload;

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::workload;
    use crate::{ProductToken, Rules, Target};

    thread_local! {
        pub(super) static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    /// For each byte of the file and the path. Where one pattern is tried after the other there are four of
    /// them at most, since then the walk for all of them begins; in that each byte costs a search among the
    /// pieces, and each piece is met once.
    const STEPS_PER_BYTE: usize = 8;

    /// Steps of one verdict, which must be few.
    fn steps(what: &str, file: &str, path: &str) -> usize {
        let token = ProductToken::new(workload::AGENT).unwrap();
        let (rules, target) = (Rules::parse(file.as_bytes(), &[token]), Target::new(path));
        STEPS.set(0);
        let is_allowed = rules.is_allowed(&target);
        let steps = STEPS.get();
        println!("{what}: {steps} steps, {} bytes: {is_allowed}", file.len() + path.len());
        let most = STEPS_PER_BYTE * (file.len() + path.len());
        assert!(steps <= most, "{what}: {steps} steps, {most} at most");
        steps
    }

    #[test]
    fn hostile_files_cost_steps_in_proportion_to_what_is_sent() {
        let all: usize = workload::hostile().iter().map(|(what, file, path)| steps(what, file, path)).sum();
        assert!(all > 1_000_000, "something is counted: {all}");
    }

    /// Patterns that took other parsers seconds, with every byte of them in the path, so that no signature
    /// rules one out.
    #[test]
    fn patterns_that_were_attacks_elsewhere_cost_steps_in_proportion() {
        // google/robotstxt#85: a pattern of 80,000 bytes and a path of 1,600 took 3.7 s. One line, and as
        // many as fit into a file.
        for piece in ["*", "*a", "*aa", "a*"] {
            let line = format!("Disallow: /{}b\n", piece.repeat(80_000 / piece.len()));
            for lines in [1, 6] {
                let file = format!("User-agent: *\n{}", line.repeat(lines));
                steps(&format!("{lines} of {piece}"), &file, &format!("/b{}", "a".repeat(1_600)));
            }
        }
        // Protego CVE-2026-55520: stars that a backtracking matcher tries in every combination.
        for (stars, end) in
            [30, 300, 8_000].into_iter().flat_map(|stars| ["b", "b$", "$", "*b*"].map(|end| (stars, end)))
        {
            let file = format!("User-agent: *\nDisallow: /{}{end}\n", "*a".repeat(stars));
            steps(&format!("{stars} stars and {end}"), &file, &format!("/b{}", "a".repeat(16_000)));
        }
    }
}
