use super::samples::Samples;
use super::*;
use proptest::prelude::*;
use serde_json::Value;

#[test]
fn a_column_is_declared_once_with_what_it_is() {
    for (at, (name, meaning)) in COLUMNS.iter().zip(MEANINGS).enumerate() {
        assert!(!COLUMNS[..at].contains(name), "{name}");
        assert!(
            !meaning.is_empty() && name.len() + meaning.len() < 90,
            "{name}"
        );
    }
    let texts = COLUMNS.iter().zip(TEXTS).filter(|(_, is_text)| *is_text);
    let texts: Vec<_> = texts.map(|(name, _)| *name).collect();
    assert_eq!(
        texts,
        [
            "time", "host", "src", "clock", "quality", "algo", "proto", "pg_name", "pg_desc"
        ]
    );
    assert_eq!(COLUMNS[Column::bytes as usize], "bytes");
}

proptest! {
    /// CSV is what the csv crate reads, JSON what serde_json reads; both have every column's value.
    #[test]
    fn every_column_is_written_as_it_is(
        numbers in proptest::collection::vec(any::<u64>(), 1..40),
        texts in proptest::collection::vec("\\PC{0,6}|[ ,\"\r\n\\\\]{0,4}", 1..9),
    ) {
        let texts: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
        let (mut row, timing) = Row::sample(&mut Samples { numbers: &numbers, texts: &texts, at: 0 });
        row.timing = Some(&timing);
        let (mut csv, mut json) = (csv_header().into_bytes(), Vec::new());
        row.csv(&mut csv);
        row.jsonl(&mut json);
        let mut reader = csv::Reader::from_reader(&csv[..]);
        prop_assert_eq!(reader.headers().unwrap(), &COLUMNS[..]);
        let record = reader.byte_records().next().unwrap().unwrap();
        prop_assert_eq!(json.iter().filter(|&&b| b == b'\n').count(), 1);
        let object: Value = serde_json::from_slice(&json).unwrap();
        let text = String::from_utf8(json).unwrap();
        let mut at = 0;
        for (name, field) in COLUMNS.iter().zip(&record) {
            let column = Column::ALL[COLUMNS.iter().position(|c| c == name).unwrap()];
            let mut value = Vec::new();
            row.value(column, &mut value);
            prop_assert_eq!(field, &value[..], "{}", name);
            let value = String::from_utf8(value).unwrap();
            match &object[*name] {
                Value::Null => prop_assert_eq!("", value),
                Value::String(text) => prop_assert_eq!(text, &value),
                // serde_json has no exact number for more than 64 bits.
                number if number.is_f64() => prop_assert_eq!(*name, "bytes"),
                number => prop_assert_eq!(number.to_string(), value),
            }
            let key = text[at..].find(&format!("\"{name}\":"));
            at += key.expect("keys in the order of the columns");
        }
    }
}
