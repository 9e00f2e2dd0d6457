//! The pages of one column of a group: a dictionary and numbers of its values, or differences.

use super::hybrid::{bits_of, push_numbers, push_run};
use super::limits::{BOUND_BYTES, ZSTD_LEVEL};
use super::schema::ColumnStorage;
use super::{column_properties, compression};
use ::parquet::basic::{Encoding, PageType};
use ::parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use ::parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use ::parquet::data_type::ByteArray;
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use ::parquet::file::statistics::Statistics;
use ::parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use ::parquet::schema::types::ColumnDescPtr;

/// The pages, and what the file's end has of them.
pub(super) struct ColumnPages {
    pub(super) bytes: Vec<u8>,
    pub(super) facts: ColumnCloseResult,
}

/// The different values of a column.
pub(super) enum PageDictionary<'d> {
    Texts(Vec<&'d [u8]>),
    Numbers(Vec<i64>, ColumnStorage),
}

/// Which value each row has.
pub(super) enum RowIndices {
    /// All rows have the same, or none.
    Same { index: Option<u32>, rows: usize },
    /// The rows that have a value, and which rows they are, if not all.
    Each {
        indices: Vec<u32>,
        known: Option<Vec<u8>>,
    },
}

impl RowIndices {
    fn count_rows(&self) -> usize {
        match self {
            RowIndices::Same { rows, .. } => *rows,
            RowIndices::Each {
                known: Some(all), ..
            } => all.len(),
            RowIndices::Each { indices, .. } => indices.len(),
        }
    }

    fn count_nulls(&self) -> usize {
        match self {
            RowIndices::Same { index: None, rows } => *rows,
            RowIndices::Same { .. } => 0,
            RowIndices::Each { indices, .. } => self.count_rows() - indices.len(),
        }
    }

    /// Which rows have a value: numbers of one bit after their length in bytes.
    fn push_levels(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0; 4]);
        match self {
            RowIndices::Each {
                known: Some(all), ..
            } => push_numbers(all, 1, out),
            RowIndices::Same { index: None, rows } => push_run(0, *rows, 1, out),
            _ => push_run(1, self.count_rows(), 1, out),
        }
        let length = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&length.to_le_bytes());
    }

    fn push_indices(&self, bits: u32, out: &mut Vec<u8>) {
        match self {
            RowIndices::Same { index, rows } => push_run(index.unwrap_or(0), *rows, bits, out),
            RowIndices::Each { indices, .. } => push_numbers(indices, bits, out),
        }
    }
}

impl PageDictionary<'_> {
    fn len(&self) -> usize {
        match self {
            PageDictionary::Texts(texts) => texts.len(),
            PageDictionary::Numbers(numbers, _) => numbers.len(),
        }
    }

    /// The values as the page has them.
    fn plain_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            PageDictionary::Texts(texts) => {
                for text in texts {
                    let text = String::from_utf8_lossy(text);
                    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                    out.extend_from_slice(text.as_bytes());
                }
            }
            PageDictionary::Numbers(numbers, ColumnStorage::Small) => {
                let small = numbers.iter().flat_map(|n| (*n as i32).to_le_bytes());
                out.extend(small);
            }
            PageDictionary::Numbers(numbers, _) => {
                out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
            }
        }
        out
    }

    /// The least and the greatest value, by which readers leave out a group.
    fn statistics(&self, nulls: usize) -> Statistics {
        let (nulls, different) = (Some(nulls as u64), None);
        match self {
            PageDictionary::Texts(texts) => {
                let texts = || texts.iter().map(|text| String::from_utf8_lossy(text));
                let is_short = texts().all(|text| text.len() <= BOUND_BYTES);
                let bound = |text: Option<std::borrow::Cow<'_, str>>| {
                    text.filter(|_| is_short)
                        .map(|text| ByteArray::from(&*text))
                };
                let (least, most) = (bound(texts().min()), bound(texts().max()));
                Statistics::byte_array(least, most, different, nulls, false)
            }
            PageDictionary::Numbers(numbers, ColumnStorage::Small) => {
                let small = || numbers.iter().map(|n| *n as i32);
                Statistics::int32(small().min(), small().max(), different, nulls, false)
            }
            PageDictionary::Numbers(numbers, _) => {
                let numbers = || numbers.iter().copied();
                Statistics::int64(numbers().min(), numbers().max(), different, nulls, false)
            }
        }
    }
}

/// Pages as they come, with what they add up to.
struct PageSums<'p> {
    to: SerializedPageWriter<'p, Vec<u8>>,
    compressed: usize,
    uncompressed: usize,
    counts: Vec<PageEncodingStats>,
}

impl PageSums<'_> {
    fn push_page(
        &mut self,
        plain: &[u8],
        page: impl FnOnce(Vec<u8>) -> Page,
    ) -> Result<PageWriteSpec, ParquetError> {
        let packed = zstd::bulk::compress(plain, ZSTD_LEVEL)?;
        let page = CompressedPage::new(page(packed), plain.len());
        self.counts.push(PageEncodingStats {
            page_type: page.page_type(),
            encoding: page.encoding(),
            count: 1,
        });
        let spec = self.to.write_page(page)?;
        self.compressed += spec.compressed_size;
        self.uncompressed += spec.uncompressed_size;
        Ok(spec)
    }
}

/// Writes a column by its dictionary.
pub(super) fn dictionary_pages(
    descr: &ColumnDescPtr,
    dictionary: &PageDictionary<'_>,
    rows: &RowIndices,
) -> Result<ColumnPages, ParquetError> {
    let mut sink = TrackedWrite::new(Vec::new());
    let mut pages = PageSums {
        to: SerializedPageWriter::new(&mut sink),
        compressed: 0,
        uncompressed: 0,
        counts: Vec::new(),
    };
    let (entries, all) = (dictionary.len(), rows.count_rows());
    let mut data = Vec::new();
    rows.push_levels(&mut data);
    let (mut dictionary_at, mut encoding) = (None, Encoding::PLAIN);
    if entries > 0 {
        let spec = pages.push_page(&dictionary.plain_bytes(), |buf| Page::DictionaryPage {
            buf: buf.into(),
            num_values: entries as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        })?;
        dictionary_at = Some(spec.offset as i64);
        encoding = Encoding::RLE_DICTIONARY;
        let bits = bits_of(entries as u32 - 1);
        data.push(bits as u8);
        rows.push_indices(bits, &mut data);
    }
    let spec = pages.push_page(&data, |buf| Page::DataPage {
        buf: buf.into(),
        num_values: all as u32,
        encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    })?;
    let PageSums {
        mut to,
        compressed,
        uncompressed,
        counts,
    } = pages;
    to.close()?;
    debug_assert_eq!(spec.page_type, PageType::DATA_PAGE);
    let metadata = ColumnChunkMetaData::builder(descr.clone())
        .set_compression(compression()?)
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, encoding])
        .set_page_encoding_stats(counts)
        .set_total_compressed_size(compressed as i64)
        .set_total_uncompressed_size(uncompressed as i64)
        .set_num_values(all as i64)
        .set_dictionary_page_offset(dictionary_at)
        .set_data_page_offset(spec.offset as i64)
        .set_statistics(dictionary.statistics(rows.count_nulls()))
        .build()?;
    let facts = ColumnCloseResult {
        bytes_written: compressed as u64,
        rows_written: all as u64,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    let bytes = sink.into_inner()?;
    Ok(ColumnPages { bytes, facts })
}

/// Writes a column of numbers as differences; `known` has 1 for each row with a value.
pub(super) fn difference_pages(
    descr: &ColumnDescPtr,
    storage: ColumnStorage,
    numbers: &[i64],
    known: &[i16],
) -> Result<ColumnPages, ParquetError> {
    let mut sink = TrackedWrite::new(Vec::new());
    let pages = Box::new(SerializedPageWriter::new(&mut sink));
    let mut writer = get_column_writer(descr.clone(), column_properties()?, pages);
    match &mut writer {
        ColumnWriter::Int64ColumnWriter(to) => {
            to.write_batch(numbers, Some(known), None)?;
        }
        ColumnWriter::Int32ColumnWriter(to) if storage == ColumnStorage::Small => {
            let small: Vec<i32> = numbers.iter().map(|n| *n as i32).collect();
            to.write_batch(&small, Some(known), None)?;
        }
        _ => return Err(ParquetError::General("a column of texts".to_owned())),
    }
    let facts = writer.close()?;
    let bytes = sink.into_inner()?;
    Ok(ColumnPages { bytes, facts })
}
