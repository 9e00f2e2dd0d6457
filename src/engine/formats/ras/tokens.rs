//! JSON as NCCL prints it: 2.28.9 leaves commas out, so commas and colons are read as blanks.

/// Reads a document from left to right. `None` means that the document ends too early.
pub(super) struct JsonTokens<'d> {
    bytes: &'d [u8],
    at: usize,
    line: u64,
}

/// A piece of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonToken<'d> {
    /// The begin of an object or a list.
    Open(u8),
    /// The end of an object or a list.
    Close,
    /// A string, without its quotes; escapes are left in it.
    Text(&'d [u8]),
    /// A number or a word.
    Scalar(&'d [u8]),
}

impl<'d> JsonTokens<'d> {
    /// Reads `bytes`.
    pub(super) fn new(bytes: &'d [u8]) -> JsonTokens<'d> {
        JsonTokens {
            bytes,
            at: 0,
            line: 0,
        }
    }

    /// The line of the next byte, from 0.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Goes to the next object outside of any other; false at the end of the bytes.
    pub(super) fn find_object(&mut self) -> bool {
        while let Some(&byte) = self.bytes.get(self.at) {
            if byte == b'{' {
                return true;
            }
            self.skip_byte(byte);
        }
        false
    }

    fn skip_byte(&mut self, byte: u8) {
        self.line += u64::from(byte == b'\n');
        self.at += 1;
    }

    /// Returns the first byte of the next piece.
    fn peek_byte(&mut self) -> Option<u8> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !byte.is_ascii_whitespace() && !b",:".contains(&byte) {
                return Some(byte);
            }
            self.skip_byte(byte);
        }
        None
    }

    /// Returns the next piece.
    pub(super) fn next_token(&mut self) -> Option<JsonToken<'d>> {
        let first = self.peek_byte()?;
        let from = self.at;
        match first {
            b'{' | b'[' => {
                self.at += 1;
                Some(JsonToken::Open(first))
            }
            b'}' | b']' => {
                self.at += 1;
                Some(JsonToken::Close)
            }
            b'"' => {
                self.at += 1;
                while let Some(&byte) = self.bytes.get(self.at) {
                    if byte == b'"' {
                        self.at += 1;
                        return Some(JsonToken::Text(&self.bytes[from + 1..self.at - 1]));
                    }
                    self.skip_byte(byte);
                    if byte == b'\\' {
                        self.at += 1;
                    }
                }
                None
            }
            _ => {
                let is_end = |b: &u8| b.is_ascii_whitespace() || b"{}[]\",:".contains(b);
                let rest = &self.bytes[from..];
                let len = rest.iter().position(is_end).unwrap_or(rest.len());
                self.at += len;
                Some(JsonToken::Scalar(&rest[..len]))
            }
        }
    }

    /// Skips the next value, if there is one before the end of its object or list.
    pub(super) fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0_u64;
        loop {
            if depth == 0 && matches!(self.peek_byte()?, b'}' | b']') {
                return Some(());
            }
            match self.next_token()? {
                JsonToken::Open(_) => depth += 1,
                JsonToken::Close => depth -= 1,
                JsonToken::Text(_) | JsonToken::Scalar(_) => {}
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Gives each key of the next object to `take`, which reads its value.
    pub(super) fn for_each_field(
        &mut self,
        mut take: impl FnMut(&mut JsonTokens<'d>, &'d [u8]) -> Option<()>,
    ) -> Option<()> {
        if self.peek_byte()? != b'{' {
            return self.skip_value();
        }
        self.next_token()?;
        loop {
            match self.peek_byte()? {
                b'}' | b']' => {
                    self.next_token()?;
                    return Some(());
                }
                b'"' => {}
                _ => {
                    self.skip_value()?;
                    continue;
                }
            }
            if let JsonToken::Text(key) = self.next_token()? {
                take(self, key)?;
            }
        }
    }

    /// Calls `take` before each item of the next list, which reads it.
    pub(super) fn for_each_item(
        &mut self,
        mut take: impl FnMut(&mut JsonTokens<'d>) -> Option<()>,
    ) -> Option<()> {
        if self.peek_byte()? != b'[' {
            return self.skip_value();
        }
        self.next_token()?;
        while !matches!(self.peek_byte()?, b'}' | b']') {
            take(self)?;
        }
        self.next_token().map(drop)
    }

    /// Reads a string or a scalar; a value of another kind is skipped and empty.
    pub(super) fn read_text(&mut self) -> Option<&'d [u8]> {
        match self.peek_byte()? {
            b'{' | b'[' | b'}' | b']' => self.skip_value().map(|()| &b""[..]),
            _ => match self.next_token()? {
                JsonToken::Text(text) | JsonToken::Scalar(text) => Some(text),
                JsonToken::Open(_) | JsonToken::Close => Some(b""),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_may_be_missing() {
        let mut tokens = JsonTokens::new(b"{\"a\": 1\n \"b\": {\"x\": [1, {}]} \"c\": \"d\\\"\"}");
        let mut seen = Vec::new();
        let end = tokens.for_each_field(|tokens, key| {
            match key {
                b"b" => tokens.skip_value()?,
                _ => seen.push((key, tokens.read_text()?)),
            }
            Some(())
        });
        assert_eq!(end, Some(()));
        assert_eq!(seen, [(&b"a"[..], &b"1"[..]), (b"c", b"d\\\"")]);
        assert_eq!(tokens.line(), 1);
    }

    #[test]
    fn no_bytes_stop_it() {
        let whole = b"{\"a\": {\"b\": [1, 2, {\"c\": tru]}}, \"d\\";
        for to in 0..whole.len() {
            let mut tokens = JsonTokens::new(&whole[..to]);
            _ = tokens.for_each_field(|tokens, _| tokens.skip_value());
        }
        for text in [
            &b"{]"[..],
            b"{:}",
            b"{\"a\"}",
            b"{1 2 3}",
            b"[[[[",
            b"}",
            b"{{}",
        ] {
            let mut tokens = JsonTokens::new(text);
            _ = tokens.for_each_field(|tokens, _| tokens.read_text().map(drop));
            _ = tokens.for_each_item(|tokens| tokens.skip_value());
        }
    }
}
