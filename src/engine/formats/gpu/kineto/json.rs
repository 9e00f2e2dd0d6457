//! JSON in a buffer that may end anywhere: values are passed over and checked, none is built.
//!
//! Lenient as writers of traces are: a number may be NaN, Infinity or inf, and a string may have
//! control characters, but no line end. Callers read a value from its bytes.

use super::limits::MAX_JSON_DEPTH;
use crate::grammar::token::bytes_equal_to;

/// The reason why a value could not be passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonStop {
    /// The bytes end inside the value.
    More,
    /// The bytes are no JSON from this one on.
    Bad(usize),
}

/// A place in bytes that are JSON from there on, if they are not damaged.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonCursor<'b> {
    bytes: &'b [u8],
    pub(super) at: usize,
}

impl<'b> JsonCursor<'b> {
    pub(super) fn new(bytes: &'b [u8], at: usize) -> JsonCursor<'b> {
        JsonCursor { bytes, at }
    }

    /// Passes blanks; the byte after them.
    #[inline(always)]
    pub(super) fn next_byte(&mut self) -> Result<u8, JsonStop> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(JsonStop::More),
            }
        }
    }

    fn bad_value<T>(&self) -> Result<T, JsonStop> {
        Err(JsonStop::Bad(self.at))
    }

    /// Passes blanks and this byte.
    #[inline(always)]
    pub(super) fn expect(&mut self, byte: u8) -> Result<(), JsonStop> {
        match self.next_byte()? == byte {
            true => {
                self.at += 1;
                Ok(())
            }
            false => self.bad_value(),
        }
    }

    /// Passes a string; returns the bytes between its quotes, as they are written.
    #[inline]
    pub(super) fn pass_string(&mut self) -> Result<&'b [u8], JsonStop> {
        self.expect(b'"')?;
        let from = self.at;
        loop {
            self.at += count_plain_bytes(&self.bytes[self.at..]);
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') if self.at + 1 < self.bytes.len() => self.at += 2,
                Some(b'\\') | None => return Err(JsonStop::More),
                Some(_) => return self.bad_value(),
            }
        }
        let text = self.bytes.get(from..self.at).unwrap_or_default();
        self.at += 1;
        Ok(text)
    }

    /// Passes a key and its colon.
    #[inline]
    pub(super) fn pass_key(&mut self) -> Result<&'b [u8], JsonStop> {
        let key = self.pass_string()?;
        self.expect(b':')?;
        Ok(key)
    }

    /// Passes a number or a word.
    #[inline]
    fn pass_scalar(&mut self) -> Result<(), JsonStop> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let is_part = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.');
        match rest.iter().take_while(is_part).count() {
            n if n == rest.len() => Err(JsonStop::More),
            0 => self.bad_value(),
            n => {
                self.at += n;
                Ok(())
            }
        }
    }

    /// Passes a value of any kind; returns its bytes.
    pub(super) fn pass_value(&mut self) -> Result<&'b [u8], JsonStop> {
        let byte = self.next_byte()?;
        let from = self.at;
        match byte {
            b'"' => _ = self.pass_string()?,
            b'{' | b'[' => self.pass_nested()?,
            _ => self.pass_scalar()?,
        }
        Ok(self.bytes.get(from..self.at).unwrap_or_default())
    }

    /// Passes an object or a list.
    fn pass_nested(&mut self) -> Result<(), JsonStop> {
        // A bit for each level, the lowest for the innermost: 1 is an object.
        let (mut levels, mut depth) = (0_u128, 0);
        loop {
            // A value begins.
            match self.next_byte()? {
                b'"' => _ = self.pass_string()?,
                open @ (b'{' | b'[') => {
                    if depth >= MAX_JSON_DEPTH {
                        return self.bad_value();
                    }
                    self.at += 1;
                    let is_object = open == b'{';
                    (levels, depth) = (levels << 1 | u128::from(is_object), depth + 1);
                    match (self.next_byte()?, is_object) {
                        // It is empty, and closed below.
                        (b'}', true) | (b']', false) => {}
                        (_, true) => {
                            self.pass_key()?;
                            continue;
                        }
                        (_, false) => continue,
                    }
                }
                _ => self.pass_scalar()?,
            }
            // A value has ended.
            loop {
                match (self.next_byte()?, levels & 1 == 1) {
                    (b',', true) => {
                        self.at += 1;
                        self.pass_key()?;
                        break;
                    }
                    (b',', false) => {
                        self.at += 1;
                        break;
                    }
                    (b'}', true) | (b']', false) => {
                        self.at += 1;
                        (levels, depth) = (levels >> 1, depth - 1);
                        if depth == 0 {
                            return Ok(());
                        }
                    }
                    _ => return self.bad_value(),
                }
            }
        }
    }

    /// Passes an object member by member: gives each key with its value's bytes to `take`.
    #[inline]
    pub(super) fn pass_members(
        &mut self,
        mut take: impl FnMut(&'b [u8], &'b [u8]),
    ) -> Result<(), JsonStop> {
        self.expect(b'{')?;
        if self.next_byte()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.pass_key()?;
            let value = self.pass_value()?;
            take(key, value);
            match self.next_byte()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.bad_value(),
            }
        }
    }
}

/// Counts the bytes before the first that may end a string: a quote, a backslash, or a line end.
#[inline(always)]
fn count_plain_bytes(bytes: &[u8]) -> usize {
    let mut at = 0;
    for word in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
        let is = |byte| bytes_equal_to(byte, word);
        let hits = is(b'"') | is(b'\\') | is(b'\n');
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let plain = rest
        .iter()
        .take_while(|b| !matches!(b, b'"' | b'\\' | b'\n'));
    at + plain.count()
}

/// Returns a string without its quotes and escapes; `None` for any other value.
pub(super) fn text_of_value(value: &[u8]) -> Option<std::borrow::Cow<'_, [u8]>> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(unescape(inner))
}

/// Resolves the escapes of the bytes between a string's quotes. If they are no UTF-8, or an escape is
/// not JSON's, they stay as they are written.
pub(super) fn unescape(inner: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if memchr::memchr(b'\\', inner).is_none() {
        return inner.into();
    }
    let quoted = [b"\"", inner, b"\""].concat();
    match serde_json::from_slice::<String>(&quoted) {
        Ok(text) => text.into_bytes().into(),
        Err(_) => inner.into(),
    }
}

/// A whole number, or a text that is one.
pub(super) fn parse_number(value: &[u8]) -> Option<u64> {
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    let value = value.strip_suffix(b"\"").unwrap_or(value);
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(value).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn passed(text: &str) -> Result<usize, JsonStop> {
        let mut cursor = JsonCursor::new(text.as_bytes(), 0);
        cursor.pass_value().map(<[u8]>::len)
    }

    #[test]
    fn values_end_where_they_do() {
        for text in [
            r#"{"a":[1,2,{"b":"}\"]"}],"c":{}} "#,
            r#"[[],[[]],{}] "#,
            r#""a\\" "#,
            "-1.5e+3 ",
            "NaN ",
            "-inf ",
        ] {
            assert_eq!(passed(text), Ok(text.len() - 1), "{text}");
        }
        assert_eq!(passed(r#"{"a":1"#), Err(JsonStop::More));
        assert_eq!(passed("12"), Err(JsonStop::More));
        assert_eq!(passed(r#"{"a":1 "b":2}"#), Err(JsonStop::Bad(7)));
        assert_eq!(passed("{\"a\":\"b\nc\"}"), Err(JsonStop::Bad(7)));
        assert_eq!(passed(r#"[1,2}"#), Err(JsonStop::Bad(4)));
        assert_eq!(passed(&"[".repeat(200)), Err(JsonStop::Bad(127)));
        assert_eq!(
            passed(&format!("{}{} ", "[".repeat(127), "]".repeat(127))),
            Ok(254)
        );
    }

    /// Any JSON.
    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a\"\\\\{}\\[\\]:, \u{e9}\n]{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map("[a-c\"\\\\]{0,3}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// A document of serde_json passes whole, is incomplete before its end, and gives its members.
        #[test]
        fn what_is_json_is_passed(value in json(), pretty: bool, cut in 0.0..1.0_f64) {
            let text = match pretty {
                true => serde_json::to_string_pretty(&value),
                false => serde_json::to_string(&value),
            };
            let text = text.unwrap();
            prop_assert_eq!(passed(&format!("{text} ")), Ok(text.len()));
            let at = (text.len() as f64 * cut) as usize;
            prop_assert_eq!(JsonCursor::new(&text.as_bytes()[..at], 0).pass_value(), Err(JsonStop::More));
            // Numbers are not read back to the last digit.
            if let Value::Object(map) = &serde_json::from_str(&text).unwrap() {
                let mut found = serde_json::Map::new();
                let mut cursor = JsonCursor::new(text.as_bytes(), 0);
                let members = cursor.pass_members(|key, value| {
                    let key = String::from_utf8(unescape(key).into_owned()).unwrap();
                    found.insert(key, serde_json::from_slice(value).unwrap());
                });
                prop_assert_eq!((members, cursor.at), (Ok(()), text.len()));
                prop_assert_eq!(&found, map);
            }
        }

        #[test]
        fn a_byte_that_is_sought_is_found(bytes in proptest::collection::vec(
            prop_oneof![Just(b'"'), Just(b'\\'), Just(b'\n'), any::<u8>(), Just(b'a'), Just(b'b')], 0..40)) {
            let naive = bytes.iter().position(|b| matches!(b, b'"' | b'\\' | b'\n'));
            prop_assert_eq!(count_plain_bytes(&bytes), naive.unwrap_or(bytes.len()));
        }

        #[test]
        fn any_bytes_are_passed_calmly(bytes in proptest::collection::vec(
            prop_oneof![Just(b'"'), Just(b'\\'), Just(b'{'), Just(b'}'), Just(b'['), Just(b']'), Just(b','),
                Just(b':'), Just(b'1'), any::<u8>()], 0..60)) {
            let mut cursor = JsonCursor::new(&bytes, 0);
            if let Ok(value) = cursor.pass_value() {
                let mut ended = value.to_vec();
                ended.push(b' ');
                prop_assert_eq!(JsonCursor::new(&ended, 0).pass_value(), Ok(value));
            }
        }
    }
}
