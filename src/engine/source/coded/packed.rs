//! Packed inputs: gzip, zstd and parts, recognised by their first bytes. A cut or damaged input is unpacked as
//! far as possible, and its damage is noted.

use super::limits::{PACKED_READ_BYTES, UNPACKED_BLOCK_BYTES};
use crate::pool::lock_mutex;
use crate::source::part::{PART_MAGIC, PartReader};
use flate2::bufread::GzDecoder;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read};
use std::sync::{Arc, Mutex};

/// The format of a packed input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source) enum PackCodec {
    Gzip,
    Zstd,
    Part,
}

impl PackCodec {
    /// Returns the codec of an input that begins with `magic`.
    pub(in crate::source) fn detect_codec(magic: &[u8]) -> Option<PackCodec> {
        match magic {
            [0x1f, 0x8b, ..] => Some(PackCodec::Gzip),
            // A frame, or one that a decoder skips (`pzstd` and others put one in front).
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Some(PackCodec::Zstd)
            }
            magic if magic.starts_with(&PART_MAGIC) => Some(PackCodec::Part),
            _ => None,
        }
    }

    fn codec_name(self) -> &'static str {
        match self {
            PackCodec::Gzip => "gzip",
            PackCodec::Zstd => "zstd",
            PackCodec::Part => "part's",
        }
    }
}

/// The damage of a packed input that could be read in part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpackDamage {
    /// The damage, as the end of a sentence.
    pub what: String,
    /// Some of the text may be lost.
    pub is_lost: bool,
}

/// The place where an unpacker notes damage when it comes to it.
pub(in crate::source) type UnpackDamageSlot = Arc<Mutex<Option<UnpackDamage>>>;

/// Reads a file that had `expected` bytes when it was opened; notes damage if it ends before.
pub(in crate::source) fn check_length(
    file: impl Read + Send + 'static,
    expected: u64,
    trouble: &UnpackDamageSlot,
) -> Box<dyn Read + Send> {
    Box::new(LengthCheckedReader {
        file,
        expected,
        given: 0,
        trouble: Arc::clone(trouble),
    })
}

struct LengthCheckedReader<R> {
    file: R,
    expected: u64,
    given: u64,
    trouble: UnpackDamageSlot,
}

impl<R: Read> Read for LengthCheckedReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(to)?;
        self.given += n as u64;
        if n == 0 && !to.is_empty() && self.given < self.expected {
            let (given, expected) = (self.given, self.expected);
            let what = format!(
                "the file was truncated while it was read: {given} of its {expected} bytes were read"
            );
            record_damage(&self.trouble, what, true);
        }
        Ok(n)
    }
}

/// Unpacks `inner`.
pub(super) fn open_unpacker(
    codec: Option<PackCodec>,
    inner: Box<dyn Read + Send>,
    trouble: &UnpackDamageSlot,
) -> io::Result<Box<dyn Read + Send>> {
    let trouble = Arc::clone(trouble);
    let Some(codec) = codec else { return Ok(inner) };
    let inner: Box<dyn Read + Send> = match codec {
        PackCodec::Gzip => {
            let packed = BufReader::with_capacity(PACKED_READ_BYTES, inner);
            Box::new(GzipMembers {
                decoder: Some(GzDecoder::new(packed)),
                trouble: Arc::clone(&trouble),
            })
        }
        PackCodec::Zstd => Box::new(zstd::stream::read::Decoder::new(inner)?),
        PackCodec::Part => {
            let inner = BufReader::with_capacity(PACKED_READ_BYTES, inner);
            Box::new(PartReader::new(inner, Arc::clone(&trouble)))
        }
    };
    Ok(Box::new(UnpackReader {
        inner,
        codec,
        block: Vec::new(),
        at: 0,
        given: 0,
        has_ended: false,
        trouble,
    }))
}

/// Notes the first damage of an input.
pub(super) fn record_damage(trouble: &UnpackDamageSlot, what: String, is_lost: bool) {
    let mut trouble = lock_mutex(trouble);
    trouble.get_or_insert(UnpackDamage { what, is_lost });
}

/// Unpacks up to the end, or up to damage. An unpacker that comes to damage loses what it unpacked in the same call, and
/// how much that is depends on the pieces in which the packed bytes come. So text is given in blocks, and the one with the
/// damage is left out: every way in then has the same text.
struct UnpackReader {
    inner: Box<dyn Read + Send>,
    codec: PackCodec,
    block: Vec<u8>,
    /// How much of the block is given.
    at: usize,
    given: u64,
    has_ended: bool,
    trouble: UnpackDamageSlot,
}

impl UnpackReader {
    fn read_block(&mut self) -> io::Result<()> {
        (self.at, self.has_ended) = (0, true);
        self.block.resize(UNPACKED_BLOCK_BYTES, 0);
        let mut held = 0;
        let end = loop {
            match self.inner.read(&mut self.block[held..]) {
                Ok(0) => break Ok(()),
                Ok(n) => held += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => break Err(e),
            }
            if held == UNPACKED_BLOCK_BYTES {
                self.has_ended = false;
                break Ok(());
            }
        };
        // What comes before an end, a wrong sum or the next member is whole, and so are a part's frames.
        let is_in_block = |e: &io::Error| match self.codec {
            PackCodec::Gzip => e.to_string().contains("corrupt deflate"),
            PackCodec::Zstd => {
                e.kind() != io::ErrorKind::UnexpectedEof && !e.to_string().contains("checksum")
            }
            PackCodec::Part => false,
        };
        if end.as_ref().is_err_and(is_in_block) {
            held = 0;
        }
        self.block.truncate(held);
        self.given += held as u64;
        match end {
            // Errors of the system stay errors, and so does data that is not in this format at all.
            Err(e) if e.raw_os_error().is_some() || self.given == 0 => Err(e),
            Err(e) => {
                self.record_end(&e);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn record_end(&self, e: &io::Error) {
        let (name, given) = (self.codec.codec_name(), self.given);
        let how = match e.kind() {
            io::ErrorKind::UnexpectedEof => "ends too early".to_owned(),
            _ => format!("is damaged ({e})"),
        };
        let what = format!("the {name} data {how}: {given} bytes of the log were unpacked");
        record_damage(&self.trouble, what, true);
    }
}

impl Read for UnpackReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() && !self.has_ended {
            self.read_block()?;
        }
        let rest = &self.block[self.at..];
        let n = to.len().min(rest.len());
        to[..n].copy_from_slice(&rest[..n]);
        self.at += n;
        Ok(n)
    }
}

/// The members of a gzip file: logs are packed in pieces and the pieces joined.
struct GzipMembers<R> {
    /// `None` after the last one.
    decoder: Option<GzDecoder<BufReader<R>>>,
    trouble: UnpackDamageSlot,
}

impl<R: Read> Read for GzipMembers<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.decoder {
            let n = decoder.read(to)?;
            if n > 0 || to.is_empty() {
                return Ok(n);
            }
            let rest = self.decoder.take().map(GzDecoder::into_inner);
            self.decoder = match rest {
                Some(rest) => self.open_next_member(rest)?,
                None => None,
            };
        }
        Ok(0)
    }
}

impl<R: Read> GzipMembers<R> {
    /// Opens the next member, if there is one. Tapes and block devices fill up with zeros.
    fn open_next_member(
        &self,
        mut rest: BufReader<R>,
    ) -> io::Result<Option<GzDecoder<BufReader<R>>>> {
        let mut zeros = 0_u64;
        loop {
            let bytes = match rest.fill_buf() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            match bytes {
                [] if zeros == 0 => return Ok(None),
                [] => {
                    let what = format!("{zeros} zero bytes follow the gzip data");
                    record_damage(&self.trouble, what, false);
                    return Ok(None);
                }
                [0x1f, ..] if zeros == 0 => return Ok(Some(GzDecoder::new(rest))),
                _ if bytes.iter().all(|&b| b == 0) => {
                    let n = bytes.len();
                    zeros += n as u64;
                    rest.consume(n);
                }
                _ => {
                    let what = "bytes that are not gzip follow the gzip data and were not read";
                    record_damage(&self.trouble, what.to_owned(), true);
                    return Ok(None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Write};

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    }

    /// What is unpacked of `bytes`, and what is wrong with them.
    fn read(bytes: &[u8]) -> io::Result<(Vec<u8>, Option<UnpackDamage>)> {
        let trouble = UnpackDamageSlot::default();
        let inner = Box::new(Cursor::new(bytes.to_vec()));
        let mut out = Vec::new();
        open_unpacker(PackCodec::detect_codec(bytes), inner, &trouble)?.read_to_end(&mut out)?;
        let trouble = trouble.lock().unwrap().take();
        Ok((out, trouble))
    }

    #[test]
    fn a_file_that_ends_before_its_length_is_damaged() {
        for (expected, is_damaged) in [(0, false), (5, false), (6, true)] {
            let trouble = UnpackDamageSlot::default();
            let mut out = Vec::new();
            let mut file = check_length(&b"a\nb\nc"[..], expected, &trouble);
            file.read_to_end(&mut out).unwrap();
            assert_eq!(
                (&out[..], trouble.lock().unwrap().is_some()),
                (&b"a\nb\nc"[..], is_damaged)
            );
        }
    }

    fn text() -> Vec<u8> {
        (0..90_000)
            .flat_map(|i| format!("line {}\n", i * 7919 % 100_003).into_bytes())
            .collect()
    }

    #[test]
    fn whole_files_of_several_members_and_frames_are_read_to_their_ends() {
        let text = text();
        let (a, b) = text.split_at(300_000);
        let skipped = [0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let zstd = |text: &[u8]| zstd::encode_all(text, 1).unwrap();
        for whole in [
            text.clone(),
            gzip(&text),
            [gzip(a), gzip(b)].concat(),
            zstd(&text),
            [zstd(a), zstd(b)].concat(),
            [&skipped[..], &zstd(a), &skipped, &zstd(b)].concat(),
        ] {
            assert!(read(&whole).unwrap() == (text.clone(), None));
        }
    }

    #[test]
    fn what_stands_before_the_damage_is_read_and_the_damage_noted() {
        let text = text();
        let (gz, zst) = (gzip(&text), zstd::encode_all(&text[..], 1).unwrap());
        let mut wrong_sum = gz.clone();
        let at = wrong_sum.len() - 6;
        wrong_sum[at] ^= 0x40;
        let cases = [
            (gz[..gz.len() / 2].to_vec(), true),
            (gz[..gz.len() - 3].to_vec(), true),
            (wrong_sum, true),
            ([&gz[..], &[0; 70_000]].concat(), false),
            ([&gz[..], b"\0\0more"].concat(), true),
            ([&gz[..], b"more"].concat(), true),
            ([&gz[..], b"\x1f"].concat(), true),
            ([&gz[..], &gz[..9]].concat(), true),
            (zst[..zst.len() - 5].to_vec(), true),
            ([&zst[..], b"more than four bytes"].concat(), true),
        ];
        for (number, (bytes, is_lost)) in cases.into_iter().enumerate() {
            let (out, broken) = read(&bytes).unwrap();
            assert!(!out.is_empty() && text.starts_with(&out), "{number}");
            assert!(!(3..=7).contains(&number) || out == text, "{number}");
            assert_eq!(broken.map(|b| b.is_lost), Some(is_lost), "{number}");
        }
        // Of these nothing can be read.
        assert!(read(&gz[..5]).is_err() && read(&zst[..9]).is_err());
        assert!(read(b"\x1f\x8b and no more of gzip").is_err());
    }
}
