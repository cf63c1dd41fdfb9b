//! The files of an archive: made whole or not at all, appended to record by record, split by size.
//!
//! A kill at any moment leaves whole records, and at most the beginning of one behind them. Who goes on cuts
//! that off. A write that fails is cut off at once, so a full disk leaves a file that can be read.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::reader::{Reader, RecordHead};
use crate::status::UsageError;

/// The file that is written to, the last one of its archive.
#[derive(Debug)]
pub(super) struct Output {
    /// Of the first file.
    first: PathBuf,
    number: u32,
    file: File,
    len: u64,
    size_max: u64,
}

impl Output {
    /// Goes on with the files that are there, or makes the first one, with `begin` as its first record.
    /// `is_ours` looks at the first record of each file, and `known` at each record of the last one.
    pub(super) fn open(
        first: &Path,
        size_max: u64,
        begin: impl FnOnce(&Path) -> Vec<u8>,
        is_ours: impl Fn(&[u8]) -> bool,
        known: impl FnMut(&RecordHead, &[u8]),
    ) -> anyhow::Result<Self> {
        if !first.as_os_str().as_encoded_bytes().ends_with(SUFFIX.as_bytes()) {
            return Err(wrong(first, format_args!("expected the name of a {SUFFIX} file")).into());
        }
        let mut number = 1;
        // Also an empty file, as of mktemp, is one to begin with.
        if fs::metadata(first).is_ok_and(|found| found.len() > 0) {
            while numbered(first, number + 1).try_exists().unwrap_or(false) {
                number += 1;
            }
        } else {
            let path = numbered(first, number);
            let (file, len) = create(&path, &begin(&path)).map_err(|error| wrong(&path, error))?;
            return Ok(Self { first: first.to_owned(), number, file, len, size_max });
        }
        for earlier in (1..number).map(|number| numbered(first, number)) {
            let mut file = File::open(&earlier).map_err(|error| wrong(&earlier, error))?;
            if !begins_as(&mut file, &is_ours) {
                return Err(wrong(&earlier, OTHERS).into());
            }
        }
        let path = numbered(first, number);
        let (file, len) = reopen(&path, &is_ours, known)?;
        Ok(Self { first: first.to_owned(), number, file, len, size_max })
    }

    /// Whether the file has its size, so that the next records belong into another one.
    pub(super) fn is_full(&self) -> bool {
        self.len >= self.size_max
    }

    /// Begins the next file, with `begin` as its first record.
    pub(super) fn split(&mut self, begin: impl FnOnce(&Path) -> Vec<u8>) -> anyhow::Result<()> {
        let path = numbered(&self.first, self.number + 1);
        let (file, len) = create(&path, &begin(&path)).map_err(|error| failed(&path, &error))?;
        (self.file, self.len) = (file, len);
        self.number += 1;
        Ok(())
    }

    /// Appends whole records.
    pub(super) fn append(&mut self, members: &[u8]) -> anyhow::Result<()> {
        if let Err(error) = self.file.write_all(members) {
            // What was written of it would hide what comes behind it.
            let cut = self.file.set_len(self.len).and_then(|()| self.file.seek(SeekFrom::End(0)));
            let path = numbered(&self.first, self.number);
            return Err(cut.err().map_or_else(|| failed(&path, &error), |cut| failed(&path, &cut)));
        }
        self.len += members.len() as u64;
        Ok(())
    }

    /// Brings it to the disk.
    pub(super) fn sync(&self) -> anyhow::Result<()> {
        self.file.sync_all().map_err(|error| failed(&numbered(&self.first, self.number), &error))
    }
}

/// A file with its first record, which appears under its name when it is whole.
fn create(path: &Path, record: &[u8]) -> io::Result<(File, u64)> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&new)?;
    lock(&file)?;
    file.set_len(0)?;
    file.write_all(record)?;
    fs::rename(&new, path)?;
    Ok((file, record.len() as u64))
}

/// A file that is there, cut behind its last whole record.
fn reopen(
    path: &Path,
    is_ours: &impl Fn(&[u8]) -> bool,
    mut known: impl FnMut(&RecordHead, &[u8]),
) -> Result<(File, u64), UsageError> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let mut file = opened.map_err(|error| wrong(path, error))?;
    lock(&file).map_err(|error| wrong(path, error))?;
    if !begins_as(&mut file, is_ours) {
        return Err(wrong(path, OTHERS));
    }
    let mut reader = Reader::new(BufReader::with_capacity(READ_LEN, &file));
    let mut whole = 0;
    // Where it cannot be read on is where the kill was.
    while let Ok(Some(head)) = reader.next() {
        whole = head.offset;
        let mut block = Vec::new();
        let read = reader.block(|piece| {
            let left = BLOCK_MAX - block.len();
            block.extend_from_slice(piece.get(..left).unwrap_or(piece));
        });
        if read.is_err() {
            break;
        }
        // The checksum of its gzip member is checked at its end.
        match reader.end_member() {
            Ok(end) => whole = end,
            Err(_) => break,
        }
        known(&head, &block);
    }
    drop(reader);
    let cut = file.set_len(whole).and_then(|()| file.seek(SeekFrom::End(0)));
    cut.map_err(|error| wrong(path, error))?;
    Ok((file, whole))
}

/// Whether its first record is whole, and says that it is of this crawl.
fn begins_as(file: &mut File, is_ours: &impl Fn(&[u8]) -> bool) -> bool {
    let mut block = Vec::new();
    let mut reader = Reader::new(BufReader::with_capacity(READ_LEN, &*file));
    let is_info = reader
        .next()
        .is_ok_and(|head| head.is_some_and(|head| head.kind() == "warcinfo" && head.len <= BLOCK_MAX as u64));
    let is_read = is_info && reader.block(|piece| block.extend_from_slice(piece)).is_ok();
    let is_whole = is_read && reader.end_member().is_ok();
    drop(reader);
    file.seek(SeekFrom::Start(0)).is_ok() && is_whole && is_ours(&block)
}

/// Two crawls would write into each other's records.
fn lock(file: &File) -> io::Result<()> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::other("another process writes to it"),
        TryLockError::Error(error) => error,
    })
}

/// `site.warc.gz`, `site-00002.warc.gz`, and so on.
fn numbered(first: &Path, number: u32) -> PathBuf {
    if number == 1 {
        return first.to_owned();
    }
    let name = first.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(SUFFIX).unwrap_or(&name);
    first.with_file_name(format!("{stem}-{number:05}{SUFFIX}"))
}

fn wrong(path: &Path, what: impl std::fmt::Display) -> UsageError {
    UsageError(format!("--warc {}: {what}", path.display()))
}

fn failed(path: &Path, error: &io::Error) -> anyhow::Error {
    anyhow::anyhow!("{}: {error}; it ends with the last record that is whole", path.display())
}

const OTHERS: &str =
    "expected an archive of a crawl of the same URLs, found another file; choose another name";
const SUFFIX: &str = ".warc.gz";
const READ_LEN: usize = 256 * 1024;
/// A robots.txt is not read further.
const BLOCK_MAX: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use uuid::Uuid;

    use super::*;
    use crate::warc::record::Record;

    fn member(kind: &'static str, payload: &[u8]) -> Vec<u8> {
        let record = Record {
            kind,
            id: Uuid::nil(),
            date: SystemTime::UNIX_EPOCH,
            target: None,
            content_type: "text/plain",
            fields: Vec::new(),
            head: &[],
            payload,
            has_payload_digest: false,
        };
        record.member()
    }

    fn open(path: &Path, size_max: u64, mut known: impl FnMut(Vec<u8>)) -> anyhow::Result<Output> {
        let is_ours = |block: &[u8]| block == b"ours";
        Output::open(
            path,
            size_max,
            |_| member("warcinfo", b"ours"),
            is_ours,
            |_, block| known(block.to_vec()),
        )
    }

    #[test]
    fn a_cut_at_any_byte_loses_the_record_that_is_cut_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.warc.gz");
        let members = [member("warcinfo", b"ours"), member("resource", b"one"), member("resource", b"two")];
        let whole = members.concat();
        let ends: Vec<usize> = (1..=3).map(|count| members[..count].concat().len()).collect();
        for len in ends[0]..=whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            let records = ends.iter().filter(|end| **end <= len).count();
            let mut known = Vec::new();
            open(&path, 1_000_000, |block| known.push(block)).unwrap().append(&members[1]).unwrap();
            assert_eq!(known, [&b"ours"[..], b"one", b"two"][..records], "at {len}");
            let expected = [&members[..records], &[members[1].clone()]].concat().concat();
            assert_eq!(fs::read(&path).unwrap(), expected, "at {len}");
        }
        // Without its first record, nobody knows whose it is; an empty one is nobody's.
        fs::write(&path, &whole[..ends[0] - 1]).unwrap();
        assert!(open(&path, 1_000_000, |_| {}).is_err());
        fs::write(&path, "").unwrap();
        let output = open(&path, 1_000_000, |_| {}).unwrap();
        let error = open(&path, 1_000_000, |_| {}).unwrap_err().to_string();
        assert!(error.ends_with("another process writes to it"), "{error}");
        drop(output);
        assert_eq!(fs::read(&path).unwrap(), members[0]);
    }

    #[test]
    fn the_last_file_is_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.warc.gz");
        let mut output = open(&path, 10, |_| {}).unwrap();
        assert!(output.is_full());
        output.split(|_| member("warcinfo", b"ours")).unwrap();
        drop(output);
        let mut output = open(&path, 1_000_000, |_| {}).unwrap();
        output.append(&member("resource", b"one")).unwrap();
        let second = fs::read(directory.path().join("a-00002.warc.gz")).unwrap();
        assert_eq!(second, [member("warcinfo", b"ours"), member("resource", b"one")].concat());
    }
}
