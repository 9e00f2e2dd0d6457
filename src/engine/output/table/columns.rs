//! The columns of the call table, each declared once: name, type, kind of field, meaning. The row,
//! its writers and its reader, the lines of `nccl-comms --help` and the table in `docs/formats.md`
//! follow from it.

use super::Lacks;
use super::kinds::{
    Compared, ComparedAs, FieldKind, FieldValue, Id, Name, Number, Pointer, Readable, Text, Times,
    Word, Written,
};
use super::packed::{push_part, push_value};
#[cfg(test)]
use super::samples::{Sampled, Samples};
use crate::grammar::values::{Datatype, RedOp};
use crate::members::comm_id::CommId;

/// The source of a row.
pub trait Source<'r>: Copy {
    /// Returns the value of a column; `None` if the field has no value of its kind.
    fn field<T: Readable<'r, K>, K>(self, column: Column) -> Option<T>;
}

/// Makes the call table of its columns. A part's columns change together from row to row. Those
/// after `=>`, at the end of any part before the timing, are computed of others by the method of [`Row`]
/// with the column's name, in the file above ([`Row::bytes`]). A computed column is written and not
/// read, except `bytes` where the count is unknown.
macro_rules! columns {
    (
        $( $part:ident {
            $( $name:ident: $type:ty as $kind:ident = $about:literal, )*
            $( => $made:ident: $made_kind:ident = $made_about:literal, )*
        } )*
        => $timing:ident {
            $( $tname:ident: $ttype:ty as $tkind:ident = $tabout:literal, )*
        }
        $last:ident {
            $( $lname:ident: $ltype:ty as $lkind:ident = $labout:literal, )*
        }
    ) => {
        /// The columns, in order. New ones go last; readers find them by name.
        pub const COLUMNS: [&str; MEANINGS.len()] = [
            $( $( stringify!($name), )* $( stringify!($made), )* )* $( stringify!($tname), )*
            $( stringify!($lname), )*
        ];

        /// The meaning of each column.
        pub const MEANINGS: [&str; [
            $( $( $about, )* $( $made_about, )* )* $( $tabout, )* $( $labout, )*
        ].len()] = [
            $( $( $about, )* $( $made_about, )* )* $( $tabout, )* $( $labout, )*
        ];

        /// For each column, whether it holds text as printed: blanks at its end are its own.
        pub const TEXTS: [bool; COLUMNS.len()] = [
            $( $( $kind::IS_TEXT, )* $( $made_kind::IS_TEXT, )* )* $( $tkind::IS_TEXT, )*
            $( $lkind::IS_TEXT, )*
        ];

        /// Returns a column's place in [`COLUMNS`].
        #[allow(non_camel_case_types, reason = "these are the columns' names")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Column {
            $(
                $( #[doc = $about] $name, )*
                $( #[doc = $made_about] $made, )*
            )*
            $( #[doc = $tabout] $tname, )*
            $( #[doc = $labout] $lname, )*
        }

        /// Columns that are written together and change together from row to row, in their order.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Part {
            $( #[doc = concat!($( "`", stringify!($name), "` ", )* $( "`", stringify!($made), "` ", )*)] $part, )*
            #[doc = concat!($( "`", stringify!($tname), "` ", )*)]
            $timing,
            #[doc = concat!($( "`", stringify!($lname), "` ", )*)]
            $last,
        }

        impl Part {
            /// All of them, in order.
            pub const ALL: &[Part] = &[$( Part::$part, )* Part::$timing, Part::$last];

            /// Returns its columns, in order.
            pub fn columns(self) -> &'static [Column] {
                match self {
                    $( Part::$part => &[$( Column::$name, )* $( Column::$made, )*], )*
                    Part::$timing => &[$( Column::$tname, )*],
                    Part::$last => &[$( Column::$lname, )*],
                }
            }
        }

        /// One call, or `calls` equal ones. An empty text and `None` mean not known.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Row<'a> {
            $( $( #[doc = $about] pub $name: $type, )* )*
            $( #[doc = $labout] pub $lname: $ltype, )*
            /// Its bytes, if a source has them and not the number and type of elements.
            pub only_bytes: Option<u64>,
            /// When, how and for which rank it was served, if a source has it.
            pub timing: Option<&'a Timing<'a>>,
        }

        /// Time, method and rank of a call, if known. An empty text and `None` mean unknown.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct Timing<'a> {
            $( #[doc = $tabout] pub $tname: $ttype, )*
        }

        /// A timing without any known value.
        const UNKNOWN: &Timing<'static> = &Timing { $( $tname: Unknown::UNKNOWN, )* };

        impl<'a> Row<'a> {
            /// Appends some columns of the row as CSV, each with the comma or the line end after it.
            #[inline(always)]
            pub fn csv_part(&self, part: Part, out: &mut Vec<u8>) {
                match part {
                    $( Part::$part => {
                        $( Written::<$kind>::csv(self.$name, out); out.push(b','); )*
                        $( Written::<$made_kind>::csv(self.$made(), out); out.push(b','); )*
                    } )*
                    Part::$timing => {
                        let timing = self.times();
                        $( Written::<$tkind>::csv(timing.$tname, out); out.push(b','); )*
                    }
                    Part::$last => {
                        $( Written::<$lkind>::csv(self.$lname, out); out.push(b','); )*
                        out.pop();
                        out.push(b'\n');
                    }
                }
            }

            /// Appends some columns of the row as typed values: see [`super::packed`].
            #[inline(always)]
            pub fn packed_part(&self, part: Part, out: &mut Vec<u8>) {
                push_part(out, |out| match part {
                    $( Part::$part => {
                        $( push_value::<$kind>(self.$name, out); )*
                        $( push_value::<$made_kind>(self.$made(), out); )*
                    } )*
                    Part::$timing => {
                        let timing = self.times();
                        $( push_value::<$tkind>(timing.$tname, out); )*
                    }
                    Part::$last => {
                        $( push_value::<$lkind>(self.$lname, out); )*
                    }
                });
            }

            /// Appends the row as a line of JSON; unknown values are null, so that every line has
            /// the same keys.
            pub fn jsonl(&self, out: &mut Vec<u8>) {
                let begin = out.len();
                let timing = self.times();
                $(
                    $(
                        out.extend_from_slice(concat!(",\"", stringify!($name), "\":").as_bytes());
                        Written::<$kind>::json(self.$name, out);
                    )*
                    $(
                        out.extend_from_slice(concat!(",\"", stringify!($made), "\":").as_bytes());
                        Written::<$made_kind>::json(self.$made(), out);
                    )*
                )*
                $(
                    out.extend_from_slice(concat!(",\"", stringify!($tname), "\":").as_bytes());
                    Written::<$tkind>::json(timing.$tname, out);
                )*
                $(
                    out.extend_from_slice(concat!(",\"", stringify!($lname), "\":").as_bytes());
                    Written::<$lkind>::json(self.$lname, out);
                )*
                // The first comma opens the object.
                out[begin] = b'{';
                out.extend_from_slice(b"}\n");
            }

            /// Appends one column's value as it is, unquoted.
            pub fn value(&self, column: Column, out: &mut Vec<u8>) {
                let timing = self.times();
                match column {
                    $(
                        $( Column::$name => Written::<$kind>::write(self.$name, out), )*
                        $( Column::$made => Written::<$made_kind>::write(self.$made(), out), )*
                    )*
                    $( Column::$tname => Written::<$tkind>::write(timing.$tname, out), )*
                    $( Column::$lname => Written::<$lkind>::write(self.$lname, out), )*
                }
            }

            /// Returns one column's value, to be compared.
            pub fn get_field(&self, column: Column) -> FieldValue<'a> {
                let timing = self.times();
                match column {
                    $(
                        $( Column::$name => Compared::<$kind>::field_value(self.$name), )*
                        $( Column::$made => Compared::<$made_kind>::field_value(self.$made()), )*
                    )*
                    $( Column::$tname => Compared::<$tkind>::field_value(timing.$tname), )*
                    $( Column::$lname => Compared::<$lkind>::field_value(self.$lname), )*
                }
            }

            /// Returns true if a column's numbers are those that four bytes hold.
            pub fn is_small_number(column: Column) -> bool {
                match column {
                    $(
                        $( Column::$name => <$type as Compared<'a, $kind>>::IS_SMALL, )*
                        $( Column::$made => false, )*
                    )*
                    $( Column::$tname => <$ttype as Compared<'a, $tkind>>::IS_SMALL, )*
                    $( Column::$lname => <$ltype as Compared<'a, $lkind>>::IS_SMALL, )*
                }
            }

            /// Reads a row, and the parts of its timing.
            ///
            /// # Errors
            /// The first column with a field that has no value of its kind.
            #[inline]
            pub(crate) fn read(source: impl Source<'a>) -> Result<(Row<'a>, Timing<'a>), Lacks> {
                let mut row = Row {
                    $( $(
                        $name: source
                            .field::<_, $kind>(Column::$name)
                            .ok_or(concat!("a valid ", stringify!($name)))?,
                    )* )*
                    $(
                        $lname: source
                            .field::<_, $lkind>(Column::$lname)
                            .ok_or(concat!("a valid ", stringify!($lname)))?,
                    )*
                    only_bytes: None,
                    timing: None,
                };
                if row.count.is_none() {
                    row.only_bytes = source
                        .field::<Option<u64>, Number>(Column::bytes)
                        .ok_or("a valid bytes")?;
                    // A recorder may know neither; the lines of logs have the count.
                    let is_known = row.only_bytes.is_some()
                        || row.datatype.is_none() && !matches!(row.src, b"" | b"log");
                    is_known.then_some(()).ok_or("a valid count")?;
                }
                let timing = Timing {
                    $(
                        $tname: source
                            .field::<_, $tkind>(Column::$tname)
                            .ok_or(concat!("a valid ", stringify!($tname)))?,
                    )*
                };
                Ok((row, timing))
            }

            /// Makes a row of any values, and the parts of its timing.
            #[cfg(test)]
            pub(crate) fn sample(from: &mut Samples<'a>) -> (Row<'a>, Timing<'a>) {
                let mut row = Row {
                    $( $( $name: Sampled::<$kind>::sample(from), )* )*
                    $( $lname: Sampled::<$lkind>::sample(from), )*
                    only_bytes: None,
                    timing: None,
                };
                if row.count.is_none() {
                    row.only_bytes = Some(row.calls);
                }
                (row, Timing { $( $tname: Sampled::<$tkind>::sample(from), )* })
            }
        }

        impl Column {
            /// All of them.
            pub const ALL: [Column; COLUMNS.len()] = [
                $( $( Column::$name, )* $( Column::$made, )* )* $( Column::$tname, )*
                $( Column::$lname, )*
            ];

            /// What its values are compared as.
            pub fn compares_as(self) -> ComparedAs {
                match self {
                    $(
                        $( Column::$name => $kind::COMPARES, )*
                        $( Column::$made => $made_kind::COMPARES, )*
                    )*
                    $( Column::$tname => $tkind::COMPARES, )*
                    $( Column::$lname => $lkind::COMPARES, )*
                }
            }
        }
    };
}

impl<'a> Row<'a> {
    /// Returns its timing, known or not.
    #[inline(always)]
    pub fn times(&self) -> &'a Timing<'a> {
        self.timing.unwrap_or(UNKNOWN)
    }
}

/// Returns an unknown field.
trait Unknown {
    const UNKNOWN: Self;
}

impl<T> Unknown for Option<T> {
    const UNKNOWN: Self = None;
}

impl Unknown for &[u8] {
    const UNKNOWN: Self = b"";
}

columns! {
    When {
        step: Option<u64> as Number = "the trainer's own number of the step",
        time: &'a [u8] as Text = "the line's time stamp as printed",
    }
    Process {
        host: &'a [u8] as Text = "the host that made the call",
        pid: Option<u64> as Number = "the process",
    }
    Thread {
        tid: Option<u64> as Number = "the thread",
    }
    Member {
        dev: Option<u32> as Number = "the CUDA device that was current; it is not a rank",
        rank: Option<u32> as Number = "the rank in the communicator (from INIT lines)",
        nranks: Option<u32> as Number = "the size of the communicator",
        comm: Option<u64> as Pointer = "the communicator's address in its process",
        comm_id: Option<CommId> as Id =
            "the id that all members of the communicator share (from INIT lines)",
    }
    Order {
        seq: Option<u64> as Number =
            "0, 1, 2 ... by process and communicator; Send and Recv separately, by peer",
        op_count: Option<u64> as Number =
            "NCCL's opCount, not a sequence number: on one node it is constant since NCCL 2.27",
    }
    What {
        op: &'a [u8] as Name = "the operation as printed",
        count: Option<u64> as Number = "the number of elements; empty where only bytes are known",
        datatype: Option<Datatype> as Word =
            "the type of an element: fp32, bf16, int64 ..., or type<17> for an unknown code",
        redop: Option<RedOp> as Word =
            "sum, prod, max, min, avg or user<3>; empty where the operation does not reduce",
        root: Option<i64> as Number =
            "the root, or the peer of Send and Recv; empty for other operations",
        => bytes: Number = "count × element size in bytes, or what the source tells",
    }
    Rest {
        stream: Option<u64> as Pointer = "the CUDA stream's address",
        calls: u64 as Times = "the number of equal calls that the row represents",
        src: &'a [u8] as Text =
            "source: log, flight, kineto, profiler, recorder, inspector, nsys, mpi, snoopie, cuda",
    }
    => Timing {
        dur_ns: Option<u64> as Number =
            "the duration in ns; of several calls the sum, empty if one has none",
        clock: &'a [u8] as Text = "the clock that measured start_ns and dur_ns",
        quality: &'a [u8] as Text = "the limit of the accuracy of start_ns and dur_ns",
        start_ns: Option<u64> as Number = "the start in ns, on that clock",
        algo: &'a [u8] as Text = "NCCL's algorithm: RING, TREE, NVLS ...",
        proto: &'a [u8] as Text = "NCCL's protocol: LL, LL128, SIMPLE",
        nchannels: Option<u32> as Number = "the number of NCCL's channels",
        pg_name: &'a [u8] as Text = "PyTorch's name for the process group",
        pg_desc: &'a [u8] as Text = "what the program calls the process group: default_pg, tensor ...",
    }
    JobRank {
        global_rank: Option<u32> as Number = "the rank in the job (from INIT lines of all ranks)",
        enqueue_ns: Option<u64> as Number =
            "when the host enqueued the call, in ns since 1970 or since its recorder began",
    }
}
