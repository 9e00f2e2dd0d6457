//! The named values in HCCL's texts, by one reader for all their spellings.
//!
//! ```text
//! localUserrank[1]   rankId:[2]   parameter [count]   local end 16512   hcclRet -> 4   reason=[device id error]
//! ```

use crate::token::{dec_u32, dec_u64, hex_u64, is_name_byte};
use memchr::memmem;
use serde::{Deserialize, Serialize};

/// What a value is. The two ends of a connection are the process that prints the line, and the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HcclField {
    /// The own rank in the communicator.
    OwnRank,
    /// The own host, by its address or name.
    OwnHost,
    /// The number of the own NPU on its host.
    OwnDevice,
    /// The address of the own NPU.
    OwnAddress,
    /// The other rank.
    OtherRank,
    /// Its host.
    OtherHost,
    /// The number of its NPU.
    OtherDevice,
    /// The address of its NPU.
    OtherAddress,
    /// How many ranks the communicator has.
    Size,
    /// The function of HCCL, or the operation, that failed.
    Call,
    /// The limit of a wait, in seconds.
    Seconds,
    /// The runtime's reason.
    Reason,
    /// The number of an NPU with an error, as the runtime reports it.
    Device,
    /// The argument in which two ranks differ; the next two fields follow it.
    Argument,
    /// Its value on the rank that prints the line.
    OwnValue,
    /// Its value on the other rank.
    OtherValue,
    /// The ranks that did not connect, `1,3,`.
    Missing,
    /// Some of the ranks that did, `[0000000000000000],[0000000000000002]`.
    Arrived,
    /// How many did.
    ArrivedCount,
    /// The names of the columns in a table of connections.
    TableHead,
    /// A row of that table.
    TableRow,
}

use HcclField::*;

/// The names of fields that have a number; the first name that the text has counts.
const NUMBERS: [(HcclField, &[&[u8]]); 4] = [
    (Size, &[b"rankSize", b"rankNum is", b"rankNum", b"rank num"]),
    (Device, &[b"phyid", b"device_id"]),
    (ArrivedCount, &[b"total connected num is"]),
    (
        OwnRank,
        &[
            b"localUserrank",
            b"] rank[",
            b", rank[",
            b", rank:",
            b"by rank:",
        ],
    ),
];

/// The names of a process's place, `[10.0.0.9/7]`: its host and its NPU.
const PLACES: [(HcclField, HcclField, &[&[u8]]); 2] = [
    (
        OwnHost,
        OwnDevice,
        &[b"localIpAddr", b"Discoverer", b"srcRank"],
    ),
    (
        OtherHost,
        OtherDevice,
        &[
            b"remoteIpAddr",
            b"remote_ip_addr",
            b"Cluster Exception Location[IP/ID]",
            b"dstRank",
            b"destRank",
        ],
    ),
];

/// The words in front of the place of each end, `server 10.0.0.1, device ID 0, device IP 10.1.0.1`.
const SECTIONS: [[&[u8]; 2]; 3] = [
    [b"Local information:", b"Peer information:"],
    [b"localInfo{", b"remoteIP{"],
    [b"srcRank (", b"dstRank ("],
];

/// Names of the rank at the other end. A task's own `remote rank:[..]` may be a number on the host.
const OTHER_RANKS: [&[u8]; 6] = [
    b"remote rank: [",
    b"remote rank [",
    b"remoteUserrank[",
    b"eer rank: ",
    b"Remote rank: [",
    b"Remote rank: ",
];

/// Reads all named values of a text.
pub(super) fn read_hccl_fields<'a>(text: &'a [u8]) -> Vec<(HcclField, &'a [u8])> {
    let mut fields = Vec::new();
    let mut add = |field, value: Option<&'a [u8]>| fields.extend(value.map(|value| (field, value)));
    for (field, names) in NUMBERS {
        add(field, find_first(text, names, is_number));
    }
    let is_list = |value: &[u8]| {
        value
            .iter()
            .all(|b| b.is_ascii_digit() || b" ,".contains(b))
    };
    let lists: [&[u8]; 2] = [b"Failed to connect agent", b"connectFailedAgentIdList"];
    add(Missing, find_first(text, &lists, is_list));
    add(Reason, find_text(text, &[b"reason="]));
    add(OtherHost, find_text(text, &[b"connect server"]));
    let is_time =
        |value: &[u8]| dec_u32(value).is_ok_and(|(rest, _)| matches!(rest, b"" | b" s" | b"s"));
    add(
        Seconds,
        find_first(text, &[b"timeout", b"Timeout was set to"], is_time),
    );
    add(OtherRank, find_other_rank(text));
    add(OwnRank, find_own_rank_id(text));
    add(Call, find_call(text));
    add(Arrived, find_arrived(text));
    fields.extend(read_places(text));
    fields.extend(read_sections(text));
    fields.extend(read_difference(text));
    fields.extend(read_table_line(text));
    fields
}

/// Reads the number in front of a value, and `4` of `4.` and of `120 s`.
pub fn read_hccl_number(value: &[u8]) -> Option<u32> {
    let (rest, number) = dec_u32(value).ok()?;
    let ends = rest.first().is_none_or(|b| !b.is_ascii_alphanumeric());
    // HCCL's INVALID_VALUE_RANKID.
    (ends && number != u32::MAX).then_some(number)
}

fn is_number(value: &[u8]) -> bool {
    read_hccl_number(value).is_some()
}

/// The value of the first name that has one which is accepted.
fn find_first<'a>(
    text: &'a [u8],
    names: &[&'static [u8]],
    accepts: impl Fn(&[u8]) -> bool,
) -> Option<&'a [u8]> {
    let mut names = names.iter();
    names.find_map(|name| find_values(text, name).find(|value| accepts(value)))
}

/// The number of the first name that has one.
pub(super) fn find_hccl_number(text: &[u8], names: &[&'static [u8]]) -> Option<u32> {
    read_hccl_number(find_first(text, names, is_number)?)
}

/// The value of the first name that has one.
fn find_text<'a>(text: &'a [u8], names: &[&'static [u8]]) -> Option<&'a [u8]> {
    find_first(text, names, |value| !value.is_empty())
}

/// The values of each place of a name: in brackets, or else up to a blank or a mark.
fn find_values<'a>(text: &'a [u8], name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    memmem::find_iter(text, name).filter_map(move |at| {
        // Not a part of another name.
        let is_part = |byte: &u8| is_name_byte(*byte) && is_name_byte(name[0]);
        let before = at.checked_sub(1).and_then(|at| text.get(at));
        let after = &text[at + name.len()..];
        let opens = !name.last().is_some_and(|b| is_name_byte(*b))
            || after.first().is_some_and(|b| b" :=[".contains(b));
        (opens && !before.is_some_and(is_part)).then(|| read_value(after))
    })
}

fn read_value(after: &[u8]) -> &[u8] {
    let value = after.trim_ascii_start();
    let value = value
        .strip_prefix(b":")
        .or_else(|| value.strip_prefix(b"="))
        .unwrap_or(value);
    let value = value.trim_ascii_start();
    if let Some(inner) = value.strip_prefix(b"[") {
        return &inner[..memchr::memchr(b']', inner).unwrap_or(inner.len())];
    }
    let end = value.iter().position(|b| b" ,;)}]\t\r\n".contains(b));
    let value = &value[..end.unwrap_or(value.len())];
    value.strip_suffix(b".").unwrap_or(value)
}

/// The rank at the other end: the first of the names that the text has counts.
fn find_other_rank(text: &[u8]) -> Option<&[u8]> {
    let after = |name: &&[u8]| Some(&text[memmem::find(text, name)? + name.len()..]);
    let value = OTHER_RANKS.iter().find_map(after)?;
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    is_number(value).then_some(&value[..digits])
}

/// The 25 of `rankSize[32], rankId[25 24]`, of the two ranks 25 and the other one, 24.
fn find_own_rank_id(text: &[u8]) -> Option<&[u8]> {
    let size = find_first(text, &[b"rankSize"], is_number)?;
    let value = find_first(text, &[b"rankId"], is_number)?;
    let other = find_other_rank(text);
    let mut ranks = value.split(|&b| b == b' ');
    let own = match (ranks.next()?, ranks.next(), ranks.next()) {
        (own, None, _) => own,
        (own, second, None) if second == other => own,
        (first, Some(own), None) if Some(first) == other => own,
        _ => return None,
    };
    // A communicator that is not known has 0 ranks.
    (read_hccl_number(own)? < read_hccl_number(size)?).then_some(own)
}

/// The function in `HcclAllReduce failed`, `hcclCommInitRootInfo(n, &id), error code is 1`, or the operation of a tag.
fn find_call(text: &[u8]) -> Option<&[u8]> {
    let is_function = |name: &&[u8]| {
        let begins = name
            .get(..4)
            .is_some_and(|n| n.eq_ignore_ascii_case(b"hccl") || n == b"Hcom");
        begins && name.len() > 4 && name[4].is_ascii_uppercase()
    };
    let name_length = |text: &[u8]| text.iter().take_while(|b| is_name_byte(**b)).count();
    let first = &text[..name_length(text)];
    let before_failure = || {
        let before = &text[..memmem::find(text, b" fail")?];
        let length = before
            .iter()
            .rev()
            .take_while(|b| is_name_byte(**b))
            .count();
        Some(&before[before.len() - length..])
    };
    let function = Some(first)
        .filter(is_function)
        .or_else(|| before_failure().filter(is_function));
    function.or_else(|| find_operation(text))
}

/// The operation of `operator AllReduce` and of `tag[AllReduce_10.0.0.1]`.
fn find_operation(text: &[u8]) -> Option<&[u8]> {
    let is_name = |name: &[u8]| {
        name.len() > 3 && name[0].is_ascii_uppercase() && name.iter().all(u8::is_ascii_alphabetic)
    };
    let tags = || find_values(text, b"tag").find_map(name_tagged_call);
    find_first(text, &[b"operator"], is_name).or_else(tags)
}

/// The `AllReduce` of `AllReduce_10.0.0.1%eth0_60000_0_17` and of `HcomAllReduce_66294_0`.
pub fn name_tagged_call(tag: &[u8]) -> Option<&[u8]> {
    let tag = tag.strip_prefix(b"Hcom").unwrap_or(tag);
    let (name, _) = tag.split_at_checked(memchr::memchr(b'_', tag)?)?;
    let is_name = name.len() > 3 && name[0].is_ascii_uppercase();
    (is_name && name.iter().all(u8::is_ascii_alphabetic)).then_some(name)
}

/// The ranks of `connected rankinfo[LINE 0]: [0000000000000000],[0000000000000002];`.
fn find_arrived(text: &[u8]) -> Option<&[u8]> {
    let rest = &text[memmem::find(text, b"connected rankinfo[LINE ")?..];
    let rest = &rest[memmem::find(rest, b"]: [")? + b"]: ".len()..];
    Some(&rest[..memchr::memchr(b';', rest).unwrap_or(rest.len())])
}

fn read_places(text: &[u8]) -> Vec<(HcclField, &[u8])> {
    let mut fields = Vec::new();
    for (host, device, names) in PLACES {
        let is_place = |value: &[u8]| value.iter().any(|b| b".:/".contains(b));
        if let Some(place) = find_first(text, names, is_place) {
            let at = memchr::memrchr(b'/', place);
            fields.push((host, &place[..at.unwrap_or(place.len())]));
            let number = at.map(|at| &place[at + 1..]);
            fields.extend(number.filter(|n| is_number(n)).map(|n| (device, n)));
        }
    }
    fields
}

fn read_sections(text: &[u8]) -> Vec<(HcclField, &[u8])> {
    let find =
        |[own, other]: &[&[u8]; 2]| Some((memmem::find(text, own)?, memmem::find(text, other)?));
    let Some((own, other)) = SECTIONS.iter().find_map(find) else {
        return Vec::new();
    };
    let mut fields = Vec::new();
    let ends = [
        (
            text.get(own..other).unwrap_or_default(),
            [OwnHost, OwnDevice, OwnAddress],
        ),
        (&text[other..], [OtherHost, OtherDevice, OtherAddress]),
    ];
    for (text, [host, device, address]) in ends {
        let value = |names: &[&'static [u8]]| find_text(text, names);
        fields.extend(value(&[b"server"]).map(|v| (host, v)));
        let number = value(&[b"device ID", b"deviceId"]).filter(|v| is_number(v));
        fields.extend(number.map(|v| (device, v)));
        fields.extend(value(&[b"device IP", b"deviceIp"]).map(|v| (address, v)));
    }
    fields
}

/// The argument or the version in which two ranks differ, with its two values.
fn read_difference(text: &[u8]) -> Vec<(HcclField, &[u8])> {
    let differs = read_sentence(text)
        .or_else(|| read_check(text))
        .or_else(|| read_versions(text));
    let fields = differs
        .map(|[argument, own, other]| [(Argument, argument), (OwnValue, own), (OtherValue, other)]);
    fields.into_iter().flatten().collect()
}

/// `CMD information count check fail. local[4], remote[8]`, `parameter[count], local[4], remote [8]`.
fn read_check(text: &[u8]) -> Option<[&[u8]; 3]> {
    let any = |names: &[&'static [u8]]| find_text(text, names);
    let checked = memmem::find(text, b" check fail").map(|at| &text[..at]);
    let last = checked.and_then(|before| before.rsplit(|b| b" ]".contains(b)).next());
    let argument = last
        .filter(|name| !name.is_empty())
        .or_else(|| any(&[b"parameter", b"para_name"]))?;
    Some([
        argument,
        any(&[b"local end", b"local"])?,
        any(&[b"remote end", b"remote"])?,
    ])
}

/// `parameter count is 4 on the local rank and 8 on the remote rank`.
fn read_sentence(text: &[u8]) -> Option<[&[u8]; 3]> {
    let (before, rest) = split_once(text, b" on the local rank and ")?;
    let (other, _) = split_once(rest, b" on the remote rank")?;
    let (argument, own) = split_once(before, b" is ")?;
    let argument = argument.rsplit(|&b| b == b' ').next()?;
    Some([argument, own, other])
}

/// `The local version is 8.0, while the remote version is 8.1`.
fn read_versions(text: &[u8]) -> Option<[&[u8]; 3]> {
    memmem::find(text, b"ersion")?;
    let any = |names: &[&'static [u8]]| find_text(text, names);
    let own = any(&[b"local version is", b"local_version", b"The local"])?;
    let other = any(&[b"remote version is", b"remote_version", b"while the remote"])?;
    Some([b"version", own, other])
}

fn split_once<'a>(text: &'a [u8], words: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = memmem::find(text, words)?;
    Some((&text[..at], &text[at + words.len()..]))
}

/// The line of a table of connections, from its first bar.
fn read_table_line(text: &[u8]) -> Option<(HcclField, &[u8])> {
    let cells = &text[memchr::memchr(b'|', text)?..];
    if memmem::find(cells, b"dest_ip").is_some() && memmem::find(cells, b"src_ip").is_some() {
        return Some((TableHead, cells));
    }
    let mut ends = split_cells(cells).filter(|cell| read_ranked_address(cell).is_some());
    (ends.next().is_some() && ends.next().is_some()).then_some((TableRow, cells))
}

fn split_cells(cells: &[u8]) -> impl Iterator<Item = &[u8]> {
    cells.split(|&b| b == b'|').skip(1).map(<[u8]>::trim_ascii)
}

/// The address and the rank of `10.0.0.1(3)`.
fn read_ranked_address(cell: &[u8]) -> Option<(&[u8], &[u8])> {
    let (address, rest) = split_once(cell.strip_suffix(b")")?, b"(")?;
    (!address.is_empty() && is_number(rest)).then_some((address, rest))
}

/// Reads a row by the names of its columns; `None` of a connection that exists.
pub fn read_link_row<'a>(head: &[u8], row: &'a [u8]) -> Option<[(HcclField, &'a [u8]); 4]> {
    let cell = |name: &[u8]| {
        let column = split_cells(head).position(|cell| cell.starts_with(name))?;
        split_cells(row).nth(column)
    };
    let (other, other_rank) = read_ranked_address(cell(b"dest_ip")?)?;
    let (own, own_rank) = read_ranked_address(cell(b"src_ip")?)?;
    let fails = cell(b"Status") != Some(b"connected");
    fails.then_some([
        (OwnRank, own_rank),
        (OwnAddress, own),
        (OtherRank, other_rank),
        (OtherAddress, other),
    ])
}

/// The result in `errNo[0x0000000005000002]` and `return[0x0000000005000004]`: the lower half of the last word.
pub(super) fn find_error_number(text: &[u8]) -> Option<u32> {
    let number = |value: &[u8]| {
        value
            .strip_prefix(b"0x")
            .and_then(|hex| Some(hex_u64(hex).ok()?.1))
    };
    let value = find_first(text, &[b"errNo", b"return"], |value| {
        number(value).is_some()
    })?;
    u32::try_from(number(value)? & 0xffff).ok()
}

/// The numbers of a list, `1,3,` or `[0001],[0003]`.
pub fn read_hccl_ranks(list: &[u8]) -> impl Iterator<Item = u32> {
    let numbers = list
        .split(|b| !b.is_ascii_digit())
        .filter(|n| !n.is_empty());
    numbers.filter_map(|n| u32::try_from(dec_u64(n).ok()?.1).ok())
}
