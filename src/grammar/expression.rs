//! The expression of `--where`: comparisons of columns with `and`, `or`, `not` and parentheses. What a
//! column or a value means is not known here.

use crate::token::{PResult, ParseFailure, fail};
use nom::branch::alt;
use nom::bytes::complete::{tag, tag_no_case, take_till, take_while1};
use nom::character::complete::{char, multispace0};
use nom::combinator::{cut, map, not, peek, value};
use nom::multi::separated_list1;
use nom::sequence::{delimited, preceded, terminated};
use nom::{Err, Parser};

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression<'e> {
    /// All of them hold.
    All(Vec<Expression<'e>>),
    /// One of them holds.
    Any(Vec<Expression<'e>>),
    /// It does not hold.
    Not(Box<Expression<'e>>),
    /// A column has one of the values, or is compared with the one value.
    Comparison {
        /// The column as written.
        column: &'e [u8],
        /// How it is compared.
        relation: Relation,
        /// The values as written, without quotes.
        values: Vec<&'e [u8]>,
    },
}

/// How a column is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `=`, and `in` with several values.
    Equal,
    /// `!=`.
    Different,
    /// `<`.
    Less,
    /// `<=`.
    AtMost,
    /// `>`.
    Greater,
    /// `>=`.
    AtLeast,
}

impl Relation {
    /// The sign.
    pub fn sign(self) -> &'static str {
        match self {
            Relation::Equal => "=",
            Relation::Different => "!=",
            Relation::Less => "<",
            Relation::AtMost => "<=",
            Relation::Greater => ">",
            Relation::AtLeast => ">=",
        }
    }
}

/// Reads an expression.
///
/// # Errors
/// What was expected, and how many bytes were left there.
pub fn parse_expression(text: &[u8]) -> Result<Expression<'_>, ParseFailure> {
    // Deeper parentheses than anyone writes would need as much stack.
    match alternatives(text, 64) {
        Ok((rest, found)) => match rest.trim_ascii_start() {
            b"" => Ok(found),
            rest => Err(ParseFailure {
                what: "`and`, `or` or the end",
                left: rest.len(),
            }),
        },
        Err(Err::Error(failure) | Err::Failure(failure)) => Err(failure),
        Err(Err::Incomplete(_)) => Err(ParseFailure { what: "", left: 0 }),
    }
}

/// One or more expressions between `or`.
fn alternatives(input: &[u8], depth: usize) -> PResult<'_, Expression<'_>> {
    let all = |input| {
        let one = |input| term(input, depth);
        map(separated_list1(keyword("and"), cut(one)), |list| {
            join_parts(list, Expression::All)
        })
        .parse(input)
    };
    map(separated_list1(keyword("or"), all), |list| {
        join_parts(list, Expression::Any)
    })
    .parse(input)
}

/// Joins several expressions; one stays as it is.
fn join_parts<'e>(
    mut list: Vec<Expression<'e>>,
    join: fn(Vec<Expression<'e>>) -> Expression<'e>,
) -> Expression<'e> {
    match list.pop() {
        Some(only) if list.is_empty() => only,
        last => {
            list.extend(last);
            join(list)
        }
    }
}

/// A comparison, an expression in parentheses, or either after `not`.
fn term(input: &[u8], depth: usize) -> PResult<'_, Expression<'_>> {
    let Some(depth) = depth.checked_sub(1) else {
        return fail(input, "fewer parentheses");
    };
    let inverted = preceded(keyword("not"), cut(|input| term(input, depth)));
    let inside = delimited(
        symbol('(', "`(`"),
        cut(|input| alternatives(input, depth)),
        cut(symbol(')', "`and`, `or` or `)`")),
    );
    alt((
        map(inverted, |expression| Expression::Not(Box::new(expression))),
        inside,
        comparison,
    ))
    .parse(input)
}

fn comparison(input: &[u8]) -> PResult<'_, Expression<'_>> {
    let (input, column) = bare_word(input, "a column, `not` or `(`")?;
    let (input, relation) = cut(relation).parse(input)?;
    let (input, values) = match relation {
        Some(_) => map(cut(one_value), |one| vec![one]).parse(input)?,
        None => delimited(
            cut(symbol('(', "`(` after `in`")),
            separated_list1(symbol(',', "`,`"), cut(one_value)),
            cut(symbol(')', "`,` or `)`")),
        )
        .parse(input)?,
    };
    let comparison = Expression::Comparison {
        column,
        relation: relation.unwrap_or(Relation::Equal),
        values,
    };
    Ok((input, comparison))
}

/// A relation; `None` for `in`.
fn relation(input: &[u8]) -> PResult<'_, Option<Relation>> {
    let (at, _) = multispace0(input)?;
    let sign = |relation: Relation| value(Some(relation), tag(relation.sign()));
    let signs = alt((
        sign(Relation::Different),
        sign(Relation::AtMost),
        sign(Relation::AtLeast),
        sign(Relation::Equal),
        sign(Relation::Less),
        sign(Relation::Greater),
    ));
    match alt((signs, value(None, keyword("in")))).parse(at) {
        Ok(found) => Ok(found),
        Err(_) => fail(at, "one of = != < <= > >= in"),
    }
}

/// A value: a word, or any text in quotes.
fn one_value(input: &[u8]) -> PResult<'_, &[u8]> {
    let (at, _) = multispace0(input)?;
    let Some(quote) = at.first().copied().filter(|b| matches!(b, b'\'' | b'"')) else {
        return bare_word(at, "a value");
    };
    let quote = char::from(quote);
    let text = take_till(move |b| char::from(b) == quote);
    match delimited(char(quote), text, char(quote)).parse(at) {
        Ok(found) => Ok(found),
        Err(Err::Error(ParseFailure { left, .. }) | Err::Failure(ParseFailure { left, .. })) => {
            fail(&at[at.len() - left..], "the closing quote")
        }
        Err(incomplete) => Err(incomplete),
    }
}

/// A word without quotes that is not one of the expression's own.
fn bare_word<'e>(input: &'e [u8], what: &'static str) -> PResult<'e, &'e [u8]> {
    let (at, _) = multispace0(input)?;
    match take_while1::<_, _, ParseFailure>(is_word_byte).parse(at) {
        Ok((_, b"and" | b"or" | b"not" | b"in")) | Err(_) => fail(at, what),
        Ok(found) => Ok(found),
    }
}

fn keyword<'e>(
    word: &'static str,
) -> impl Parser<&'e [u8], Output = &'e [u8], Error = ParseFailure> {
    let ends = not(peek(take_while1(is_word_byte)));
    preceded(multispace0, terminated(tag_no_case(word), ends))
}

fn symbol<'e>(
    symbol: char,
    what: &'static str,
) -> impl Parser<&'e [u8], Output = char, Error = ParseFailure> {
    move |input: &'e [u8]| {
        let (at, _) = multispace0(input)?;
        match char::<_, ParseFailure>(symbol).parse(at) {
            Ok(found) => Ok(found),
            Err(_) => fail(at, what),
        }
    }
}

fn is_word_byte(b: u8) -> bool {
    !b.is_ascii_whitespace() && !b"()=!<>,'\"".contains(&b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes an expression with all its parentheses.
    fn shown(expression: &Expression<'_>) -> String {
        let list = |of: &[Expression<'_>], word: &str| {
            let of: Vec<String> = of.iter().map(shown).collect();
            format!("({})", of.join(word))
        };
        match expression {
            Expression::All(of) => list(of, " and "),
            Expression::Any(of) => list(of, " or "),
            Expression::Not(of) => format!("not {}", shown(of)),
            Expression::Comparison {
                column,
                relation,
                values,
            } => {
                let text = |of: &[u8]| String::from_utf8(of.to_vec()).unwrap();
                let values: Vec<String> = values.iter().map(|value| text(value)).collect();
                let (column, sign) = (text(column), relation.sign());
                format!("{column} {sign} {}", values.join("|"))
            }
        }
    }

    #[test]
    fn and_binds_before_or_and_not_before_both() {
        for (text, expected) in [
            ("op=AllReduce", "op = AllReduce"),
            (
                "a=1 or b>=64K AND not c<2 and d != x",
                "(a = 1 or (b >= 64K and not c < 2 and d != x))",
            ),
            (
                "not (a = 1 or b = 2) and c = 3",
                "(not (a = 1 or b = 2) and c = 3)",
            ),
            (
                "rank in (3, 8-15,'x y' )and(b = \"type<17>\")",
                "(rank = 3|8-15|x y and b = type<17>)",
            ),
            ("android = 1 or order=2", "(android = 1 or order = 2)"),
        ] {
            let found = parse_expression(text.as_bytes());
            assert_eq!(
                found.map(|of| shown(&of)),
                Ok(expected.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn a_failure_names_its_place_and_what_was_expected() {
        let deep = "(".repeat(1000);
        for (text, at, what) in [
            ("", 0, "a column, `not` or `(`"),
            ("op", 2, "one of = != < <= > >= in"),
            ("op ~ x", 3, "one of = != < <= > >= in"),
            ("op = ", 5, "a value"),
            ("op = a or", 9, "a column, `not` or `(`"),
            ("op = a b = c", 7, "`and`, `or` or the end"),
            ("(op = a", 7, "`and`, `or` or `)`"),
            ("op in a", 6, "`(` after `in`"),
            ("op in (a b)", 9, "`,` or `)`"),
            ("op = 'a", 7, "the closing quote"),
            ("op = a)", 6, "`and`, `or` or the end"),
            (&deep, 64, "fewer parentheses"),
        ] {
            let failure = parse_expression(text.as_bytes()).unwrap_err();
            assert_eq!(
                (text.len() - failure.left, failure.what),
                (at, what),
                "{text}"
            );
        }
    }

    proptest! {
        /// Pieces of expressions in any order, and any bytes.
        #[test]
        fn no_text_panics(
            pieces in proptest::collection::vec(prop_oneof![
                Just("and "), Just("or "), Just("not "), Just("in "), Just("("), Just(")"), Just(","),
                Just(" = "), Just("!="), Just("<"), Just("op"), Just("'"), Just("64K"), Just("é"),
            ], 0..40),
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            for text in [pieces.concat().as_bytes(), &bytes] {
                if let Err(failure) = parse_expression(text) {
                    prop_assert!(failure.left <= text.len() && !failure.what.is_empty());
                }
            }
        }
    }
}
