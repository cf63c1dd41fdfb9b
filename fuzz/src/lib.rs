//! The bodies of the fuzz targets: what must hold for any bytes. Each file says it in its first line.
//!
//! They run under cargo-fuzz, and as a test over the corpus and generated inputs (`smoke`), for which a
//! stable compiler is enough.

/// The program of a target: cargo-fuzz's, or one that reads the files it is given.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $crate::$name::run(bytes));

        #[cfg(not(fuzzing))]
        fn main() {
            for file in std::env::args_os().skip(1) {
                $crate::$name::run(&std::fs::read(file).expect("a file"));
            }
        }
    };
}

use cpu_time::ThreadTime;

#[cfg(test)]
mod smoke;

pub mod app_directives;
pub mod cache_control;
pub mod common_head;
pub mod fetch_script;
pub mod gate_ops;
pub mod meta_stream;
pub mod record_decode;
pub mod retry_after;
pub mod robots_differential;
pub mod robots_match;
pub mod robots_parse;
pub mod robots_roundtrip;
pub mod tag_header;
pub mod target_normalise;

#[path = "../../crates/abide-gate/tests/it/scripted.rs"]
mod scripted;

fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("it is valid up to there"),
    }
}

/// The lines of a list, in which `\x0a` is a byte.
fn list(text: &str) -> Vec<Vec<u8>> {
    let bytes = |line: &str| {
        let mut parts = line.split("\\x");
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for (byte, rest) in parts.map(|part| part.split_at(2)) {
            bytes.push(u8::from_str_radix(byte, 16).expect("two digits"));
            bytes.extend(rest.bytes());
        }
        bytes
    };
    text.lines().map(bytes).collect()
}

/// Whether the input is one of so many, for what takes long.
fn one_in(many: u32, bytes: &[u8]) -> bool {
    let number = bytes
        .iter()
        .fold(0x811c_9dc5_u32, |number, byte| (number ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    (number >> 8) % many == 0
}

/// What takes milliseconds and may never take minutes, of this thread's processor time, however busy the
/// machine is.
fn in_time<T>(work: impl FnOnce() -> T) -> T {
    let began = ThreadTime::now();
    let done = work();
    assert!(began.elapsed() < PATIENCE, "too much work: {:?}", began.elapsed());
    done
}

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
